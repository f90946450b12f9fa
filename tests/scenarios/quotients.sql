-- Intervals of averages, ratios, differences and other expressions of several answers.
--@ world = "people"
--@ budget.epsilon = 100.0
--@ defaults.epsilon = 1.0

--- An average has an interval, and the notice its half-width.
-- The moments have b = 99, and |a(1 - u) - bu| <= 208 at u = 39.2/99 with 95 %.
--@ noise = [0, 0]

EXPLAIN SELECT avg(age) FROM person;
 …
 Averages and ratios: an interval about as wide as the numerator's, divided by the denominator; unbounded where the denominator's includes 0
 …
SELECT round(avg(age), 3) AS mean, dp_interval_low(avg(age)), dp_interval_high(avg(age)) FROM person;
 39.233 | 39.16 | 39.30
 NOTICE: cost epsilon 1; interval ±4.11111 for counts, ±297 for sums of values up to 99 at 95 %; averages and ratios ±0.0697…; 99 of 100 remains for person
SELECT avg(age) FROM person;
 NOTICE: answered from history, free; interval ±4.11111 for counts, ±297 for sums of values up to 99 at 95 %; averages and ratios ±0.0697…; 99 of 100 remains for person
EXPLAIN SELECT avg(age) FROM person;
 …
 Averages and ratios ±0.0697…
 …
SELECT m, dp_interval_low(m), dp_interval_high(round(m, 1)) FROM (SELECT avg(age) AS m FROM person) t;
 39.233 | 39.16 | 39.3
 FREE

--- A share and a difference have intervals, by their names and above the aggregation.
--@ noise = [2, -1]

SELECT count(*) FILTER (WHERE sex = 'F') AS f, count(*) AS n, 100.0 * count(*) FILTER (WHERE sex = 'F') / count(*) AS share, dp_interval_low(share), dp_interval_high(share) FROM person;
 1499 | 3001 | 49.950 | 49.88 | 50.02
SELECT f - m AS more, dp_interval_low(more), dp_interval_high(f - m), dp_stddev(f - m) FROM (SELECT count(*) FILTER (WHERE sex = 'F') AS f, count(*) FILTER (WHERE sex <> 'F') AS m FROM person) t;
 -3 | -7.0 | 1.0 | 1.919
 FREE
SELECT dp_interval_low((SELECT count(*) FROM person WHERE sex = 'F') - (SELECT count(*) FROM person WHERE sex <> 'F'));
 -7.0
 FREE

--- An average and its interval.
--@ only = "over the wire"
--@ noise = [0, 0]

SELECT round(avg(age)::numeric, 1), dp_interval_low(avg(age)), dp_interval_high(avg(age)) FROM person;
 39.2 | 39.16 | 39.30
\bind [3]
SELECT dp_interval_low(avg(age)) > $1 FROM person;
 true
 FREE

--- An interval that is not bounded is NULL, and the notice says so.
--@ noise = [0, 0]

SET dp.epsilon = 0.01;
SELECT round(avg(age), 2), dp_interval_low(avg(age)), dp_interval_high(avg(age)) FROM person WHERE age < 3;
 1.0 | NULL | NULL
 NOTICE: cost epsilon 0.01; interval ±411.5 for counts, ±599 for sums of values up to 2 at 95 %; averages and ratios unbounded in 1 row; 99.99 of 100 remains for person
 NOTICE: a ratio or an average may be far off: the interval of its denominator includes 0
 HINT: Ask for fewer groups, set a larger dp.epsilon, or leave such rows out by HAVING dp_interval_low(n) > 0, where n is the denominator: for avg(x) it is count(x).

--- An average of what is the same in all records is exact.
--@ noise = [3]

SELECT avg(age), dp_interval_low(avg(age)), dp_interval_high(avg(age)) FROM person WHERE age = 79;
 79.0 | 79.0 | 79.0

--- A deviation has an interval, and EXPLAIN says how it is found.
--@ noise = [0, 0, 0]

EXPLAIN SELECT stddev(age), dp_interval_low(stddev(age)) FROM person;
 …
 Variances and the like: an interval about as wide as the numerator's, divided by the denominator; unbounded where the denominator's includes 0
 …
SELECT round(stddev(age), 2) AS s, dp_interval_low(s) < s, dp_interval_high(s) > s, dp_interval_high(stddev(age)) - dp_interval_low(stddev(age)) < 0.3 FROM person;
 23.09 | true | true | true
 NOTICE: cost epsilon 1; interval ±4.96857 for counts, ±203.699 for sums of values up to 50, ±12181.4 for sums of values up to 2500 at 95 %; variances and the like ±0.0932…; 99 of 100 remains for person
SELECT dp_stddev(stddev(age)) FROM person;
 ERROR 0A000: dp_stddev takes a COUNT, a SUM or a sum or difference of them in one query
 HINT: Variances, covariances, correlations and regressions have intervals, each by itself and in sums and multiples; skewness, kurtosis and what else is computed from them have none.

--- Intervals of a result hold together.
-- Of three, each misses with 1/60: b = 1 has 4 for that, and 3 for 1/20.
--@ noise = [0, 0, 0]

SET dp.simultaneous = on;
SELECT sex, count(*), dp_interval_low(count(*)) FROM person GROUP BY sex;
 F | 1500 | 1496
 M | 1500 | 1496
 other | 0 | -4
 NOTICE: cost epsilon 1; interval ±4 at 98.33334 %; the 3 intervals hold together at 95 %; 99 of 100 remains for person
SET dp.simultaneous = off;
SELECT sex, dp_interval_low(count(*)) FROM person GROUP BY sex;
 F | 1497
 M | 1497
 other | -3
 FREE

--- Intervals over all looks, and where history does not tell.
--@ noise = [0, 0]

SET dp.source = history;
SELECT avg(age), dp_interval_low(avg(age)) FROM person;
 NULL | NULL
SET dp.source = auto;
SET dp.coverage = always;
SELECT avg(age), dp_interval_low(avg(age)), dp_interval_high(avg(age)) FROM person;
 39.233 | 38.82 | 39.65

--- A rank has no interval, an average no deviation, and columns of two queries neither.

SELECT state, rank() OVER (ORDER BY count(*)) AS r, dp_interval_low(r) FROM person GROUP BY state;
 ERROR 0A000: dp_interval_low takes a COUNT, a SUM, an AVG or a sum, difference or quotient of them in one query
 HINT: Compare intervals of the column that is ranked: a row is above another if its dp_interval_low is above the other's dp_interval_high.
SELECT state, dp_interval_low(count(*) * 100.0 / sum(count(*)) OVER (ORDER BY count(*))) FROM person GROUP BY state;
 ERROR 0A000: dp_interval_low takes a COUNT, a SUM, an AVG or a sum, difference or quotient of them in one query
 HINT: Add up all groups of a query, in an order by their keys: sum(count(*)) OVER (ORDER BY day). Other windows have no intervals.
SELECT dp_stddev(avg(age)) FROM person;
 ERROR 0A000: dp_stddev takes a COUNT, a SUM or a sum or difference of them in one query
 HINT: SELECT n, dp_stddev(n) FROM (SELECT count(*) AS n FROM …) AS t; an average or a quotient has dp_interval_low and dp_interval_high
SELECT dp_interval_low(a.n - b.n) FROM (SELECT count(*) AS n FROM person) a, (SELECT count(*) AS n FROM person WHERE age < 9) b;
 ERROR 0A000: dp_interval_low takes a COUNT, a SUM, an AVG or a sum, difference or quotient of them in one query
 HINT: SELECT n, dp_interval_low(n) FROM (SELECT count(*) AS n FROM …) AS t

--- No groups have no intervals, and cost nothing.

SELECT sex, 100.0 * count(*) / nullif(count(*), 0) AS q, avg(age), dp_interval_low(avg(age)) FROM person WHERE age > 1000 GROUP BY sex;
 SPENT 0
