-- Notices and warnings about what noise does to an answer, and errors of answers that were paid for.

--- A denominator that may be 0 is announced.
-- Six groups have 500 records and nine are empty.
--@ budget.epsilon = 10

SELECT sex, state, avg(age) FROM person GROUP BY sex, state;
 …
 NOTICE: cost …
 NOTICE: a ratio or an average may be far off: the interval of its denominator includes 0 in 9 of 15 rows
 HINT: Ask for fewer groups, set a larger dp.epsilon, or leave such rows out by HAVING dp_interval_low(n) > 0, where n is the denominator: for avg(x) it is count(x).
SELECT avg(age) FROM person GROUP BY sex, state HAVING dp_interval_low(count(age)) > 0;
 38.76
 39.68
 38.76
 39.76
 38.68
 39.76
 NOTICE: answered from history, free; …
SELECT sex, stddev(age) FROM person GROUP BY sex, state;
 …
 NOTICE: cost …
 NOTICE: a ratio or an average may be far off: the interval of its denominator includes 0 in 9 of 15 rows
SELECT 100.0 * count(*) FILTER (WHERE age < 9) / count(*) FROM person GROUP BY sex, state;
 …
 NOTICE: cost …
 NOTICE: a ratio or an average may be far off: the interval of its denominator includes 0 in 9 of 15 rows
SELECT sex, s / n FROM (SELECT sex, state, count(*) AS n, sum(age) AS s FROM person GROUP BY sex, state) AS t;
 …
 NOTICE: answered from history, free; …
 NOTICE: a ratio or an average may be far off: the interval of its denominator includes 0 in 9 of 15 rows
SELECT s / n FROM (SELECT sex, state, count(*) AS n, sum(age) AS s FROM person GROUP BY sex, state) AS t WHERE dp_interval_low(n) > 0;
 …
 NOTICE: answered from history, free; …
SELECT sum(age) % count(*) FROM person GROUP BY sex, state;
 …
 NOTICE: answered from history, free; …
 NOTICE: a ratio or an average may be far off: the interval of its denominator includes 0 in 9 of 15 rows
SET dp.notices = off;
SELECT avg(age) FROM person GROUP BY sex, state;
 NOTICE: none

--- A variance that noise decides is announced where something is divided by it.
-- Ages from 39 to 40 have a variance of 1/4, and their squares sum up to less than the noise.
--@ budget.epsilon = 10

SELECT regr_slope(CASE WHEN sex = 'F' THEN 1 ELSE 0 END, age) FROM person WHERE age BETWEEN 39 AND 40;
 …
 NOTICE: cost …
 NOTICE: a ratio or an average may be far off: the interval of its denominator includes 0
SELECT regr_slope(CASE WHEN sex = 'F' THEN 1 ELSE 0 END, age) IS NULL FROM person;
 false
 NOTICE: cost …

--- What cannot be checked by itself is answered.
--@ budget.epsilon = 10

SELECT sum(s) / sum(n) FROM (SELECT sex, state, count(*) AS n, sum(age) AS s FROM person GROUP BY sex, state) AS t;
 NOTICE: cost …
SELECT count(*) / sum(count(*)) OVER () FROM person GROUP BY sex, state;
 NOTICE: cost …
SELECT n / m FROM (SELECT state, count(*) AS n FROM person GROUP BY state) AS t JOIN (SELECT count(*) AS m FROM person) AS o ON true;
 NOTICE: cost …
SELECT n / m FROM (SELECT state, count(*) AS n, sum(age) AS m FROM person GROUP BY state) AS t
    WHERE n > (SELECT avg(n) FROM (SELECT state, count(*) AS n FROM person GROUP BY state) AS o);
 NOTICE: answered from history, free; …

--- Groups without a value that come first are announced.
--@ only = "over the wire"
--@ budget.epsilon = 10

SELECT sex FROM (SELECT sex, avg(age) AS m FROM person GROUP BY sex) AS t ORDER BY m DESC LIMIT 1;
 …
 WARNING: ORDER BY puts groups without a value first
 HINT: Add NULLS LAST after the column in ORDER BY.
 NOTICE: cost …
 NOTICE: a ratio or an average may be far off: the interval of its denominator includes 0 in 1 of 3 rows

--- Quotients by 0 are announced where they are not NULL.
--@ only = "in process"
--@ budget.epsilon = 10

SELECT n / m FROM (SELECT sex, count(*) AS n, count(*) FILTER (WHERE age < 9 AND age > 8) AS m FROM person GROUP BY sex) AS t ORDER BY 1 DESC LIMIT 2;
 …
 WARNING: no declared value meets the conditions: …
 WARNING: ORDER BY puts quotients by 0 first
 HINT: Divide by nullif(n, 0), where n is the divisor.
 NOTICE: cost …
 NOTICE: a ratio or an average may be far off: the interval of its denominator includes 0 in 3 of 3 rows
SELECT n / nullif(m, 0) FROM (SELECT sex, count(*) AS n, count(*) FILTER (WHERE age < 9 AND age > 8) AS m FROM person GROUP BY sex) AS t ORDER BY 1 DESC LIMIT 2;
 …
 WARNING: no declared value meets the conditions: …
 NOTICE: answered from history, free; …

--- An order that noise decides is announced.
-- Ages have 37 or 38 records each, far fewer apart than the intervals are wide.
--@ budget.epsilon = 10

SELECT age, count(*) FROM person GROUP BY age ORDER BY 2 DESC LIMIT 10;
 …
 NOTICE: cost …
 NOTICE: which rows come first is uncertain: the intervals of rows 10 and 11 in this order overlap
 HINT: Ask for fewer groups, set a larger dp.epsilon, or show dp_interval_low and dp_interval_high of the column that ORDER BY names.
SELECT age, count(*) AS n FROM person GROUP BY age ORDER BY n DESC LIMIT 7 OFFSET 3;
 …
 NOTICE: answered from history, free; …
 NOTICE: which rows come first is uncertain: the intervals of rows 10 and 11 in this order overlap
SELECT * FROM (SELECT age, count(*) AS n FROM person GROUP BY age) AS t ORDER BY n DESC LIMIT 10;
 …
 NOTICE: answered from history, free; …
 NOTICE: which rows come first is uncertain: the intervals of rows 10 and 11 in this order overlap
WITH t AS (SELECT age, count(*) AS n FROM person GROUP BY age)
    SELECT age FROM t WHERE age > -1 ORDER BY n DESC FETCH FIRST 10 ROWS ONLY;
 …
 NOTICE: answered from history, free; …
 NOTICE: which rows come first is uncertain: the intervals of rows 10 and 11 in this order overlap
SELECT * FROM (SELECT age, count(*) AS n FROM person GROUP BY age) AS t ORDER BY 2 DESC LIMIT 10;
 …
 NOTICE: answered from history, free; …
 NOTICE: which rows come first is uncertain: the intervals of rows 10 and 11 in this order overlap
SELECT age, n FROM (SELECT age, count(*) AS n, row_number() OVER (ORDER BY count(*) DESC) AS k FROM person GROUP BY age) AS t WHERE k <= 10;
 …
 NOTICE: answered from history, free; …
 NOTICE: which rows come first is uncertain: the intervals of rows 10 and 11 in this order overlap
WITH t AS (SELECT age, count(*) AS n FROM person GROUP BY age), r AS (SELECT *, rank() OVER (ORDER BY n DESC) AS k FROM t)
    SELECT * FROM r WHERE 11 > k AND age > -1;
 …
 NOTICE: answered from history, free; …
 NOTICE: which rows come first is uncertain: the intervals of rows 10 and 11 in this order overlap
-- Noise does not decide these.
SELECT * FROM (SELECT age, count(*) AS n, row_number() OVER (ORDER BY age) AS k FROM person GROUP BY age) AS t WHERE k <= 10;
 …
 NOTICE: answered from history, free; …
SELECT state, count(*) FROM person GROUP BY state ORDER BY 2 DESC LIMIT 3;
 …
 NOTICE: cost …
SELECT age, count(*) FROM person GROUP BY age ORDER BY 2 DESC;
 …
 NOTICE: answered from history, free; …
SELECT age, count(*) FROM person GROUP BY age ORDER BY 1 DESC LIMIT 10;
 …
 NOTICE: answered from history, free; …
SELECT age, count(*) FROM person GROUP BY age ORDER BY 2 DESC LIMIT 200;
 …
 NOTICE: answered from history, free; …
SELECT age, count(*) FROM person GROUP BY age LIMIT 10;
 …
 NOTICE: answered from history, free; …
-- Both are announced once a statement.
SELECT age, avg(age), stddev(age) FROM person GROUP BY age ORDER BY count(*) DESC LIMIT 5;
 …
 NOTICE: answered from history, free; …
 NOTICE: a ratio or an average may be far off: the interval of its denominator includes 0 in … of 101 rows
 NOTICE: which rows come first is uncertain: the intervals of rows 5 and 6 in this order overlap

--- A position that * does not have is refused before a charge.

SELECT * FROM (SELECT sex, count(*) AS n FROM person GROUP BY sex) AS t ORDER BY 3 DESC LIMIT 2;
 ERROR 42804: …
 FREE
SELECT * FROM (SELECT sex, count(*) AS n FROM person GROUP BY sex) AS t ORDER BY 0 DESC LIMIT 2;
 ERROR 42804: …
 FREE

--- A noisy answer beyond a function is no error.

SELECT sqrt(n - 100000), ln(n - 100000), ln(n - n), exp(n * 1000), sqrt(CASE WHEN n - 100000 >= 0 THEN n - 100000 END)
    FROM (SELECT count(*) AS n FROM person) AS t;
 nan | nan | -inf | inf | NULL

--- An error of an answer says that it was charged, and the answer is kept.
--@ only = "over the wire"
--@ defaults.epsilon = 0.5

SELECT make_date(2020, count(*)::int, 1) FROM person;
 ERROR 22008: date, time or interval out of range
 DETAIL: The noisy answers were charged before (cost epsilon 0.5), and are kept.
 HINT: Guard it: CASE WHEN … THEN … END. Other expressions over the same aggregates are answered from history, free.
 SPENT 0.5
SELECT count(*) FROM person;
 3000
 FREE
SELECT make_date(2020, count(*)::int, 1) FROM person;
 ERROR 22008: date, time or interval out of range
 HINT: Guard it: CASE WHEN … THEN … END.
SELECT (count(*) * 1000)::smallint FROM person;
 ERROR 22003: smallint out of range
 HINT: Cast to a wider type.
SELECT count(*) * 9223372036854775807 FROM person;
 ERROR 22003: bigint out of range
 HINT: Cast to a wider type, such as bigint or numeric.

--- Intervals of counts and of sums are reported apart.
-- Of the two parts of a count, each is known better than the count.

SELECT count(*), count(*) FILTER (WHERE sex = 'F') FROM person;
 NOTICE: cost epsilon 0.1; interval ±30 to ±41 at 95 %; 0.9 of 1 remains for person
SELECT count(*), sum(age) FROM person WHERE state = 'AL';
 NOTICE: cost epsilon 0.1; interval ±41.1313 for counts, ±2966 for sums of values up to 99 at 95 %; 0.8 of 1 remains for person

--- A row and its multiples are counted once.
--@ attributes = { age = { range = [0, 2], clamp = true, nullable = true }, sex = { values = ["F", "M"], other = true } }

EXPLAIN SELECT age, count(*), sum(age) FROM person GROUP BY age;
 …
   aggregate 1: 4 rows, 4 non-zero coefficients, sensitivity 1 (add_remove), scale 10, interval ±30 at 95 %
   aggregate 2: 3 rows, 2 non-zero coefficients, sensitivity 2 (add_remove), multiples of other rows, interval ±60 at 95 % or better
 Known from history: 1 row, interval ±0 at 95 % or better; to buy: 4
   exact, from public facts: 1 row
 Cost: epsilon 0.1 of person's budget; 1 remains, 0.9 after
SELECT age, count(*), sum(age) FROM person GROUP BY age;
 NOTICE: cost epsilon 0.1 for 4 of the 5 different numbers in the result, the others are free; interval ±30 for counts, ±0 to ±60 for sums of values up to 2 at 95 %; …
SELECT count(*), sum(2) FROM person WHERE sex = 'F';
 NOTICE: cost epsilon 0.1; interval ±30 for counts, ±60 for sums of values up to 2 at 95 %; 0.8 of 1 remains for person
SET dp.source = history;
SELECT count(*), sum(-3) FROM person WHERE sex = 'F' AND age = 1;
 NOTICE: answered from history, free; 0.8 of 1 remains for person
 HINT: NULL: earlier answers do not determine it. SET dp.source = auto to buy what is missing.

--- A deviation known from history is free, and NULL where history knows a part of it.
--@ noise = [3, -40, 7]

SET dp.source = history;
SELECT stddev(age), var_pop(age) FROM person;
 NULL | NULL
SET dp.source = auto;
SELECT count(age) FROM person;
SET dp.source = history;
SELECT stddev(age), var_pop(age) FROM person;
 NULL | NULL
SET dp.source = auto;
SELECT round(var_pop(age), 3) FROM person;
 533.503
 SPENT 0.2
SELECT round(var_pop(age), 3), count(age) FROM person;
 533.503 | 3002
 FREE

--- A user spends a share, and whoever has none asks for what is known.
--@ analysts.alice.budget.epsilon = 0.2

\connect alice
SET dp.half_width = 5;
SELECT count(*) AS n, dp_interval_high(n) - n AS half FROM person WHERE age < 20;
 ERROR 53400: the share of analyst "alice" in the budget of table "person" does not allow this: it costs epsilon 0.538175, and 0.2 remains for the records asked about most by this analyst
 HINT: SET dp.epsilon to at most 0.2, which buys ±15 at 95 %, or ask about records with budget left; history does not determine this.
SET dp.epsilon = 0.2;
SELECT count(*) AS n, dp_interval_high(n) - n AS half FROM person WHERE age < 20;
 760 | 15
SELECT count(*) FROM person WHERE age < 30;
 ERROR 53400: the share of analyst "alice" in the budget of table "person" does not allow this: it costs epsilon 0.2, and 0 remains for the records asked about most by this analyst
 HINT: Ask the custodian: the policy says who may spend, and how much.
SELECT analyst, remaining FROM dp.budget;
 NULL | 0.8
 alice | 0.0
SELECT current_user;
 alice
\connect custodian
SELECT count(*) FROM person WHERE age < 40;
 ERROR 53400: analyst "custodian" has no share of the budget of table "person"
 HINT: Ask the custodian: the policy says who may spend, and how much.
SELECT count(*) FROM person WHERE age < 20;
 760
 NOTICE: answered from history, free; …

--- A larger budget is no other table, but other attributes are.

SELECT count(*) FROM person;
\restart
--@ budget.epsilon = 2
SELECT remaining FROM dp.budget;
 1.9
\restart
--@ attributes.age.range = [0, 50]
 ERROR 55000: the ledger … belongs to another declaration of table "person"
 DETAIL: tables.person.attributes.state: … tables.person.attributes.age.range: [0, 99] in the ledger, [0, 50] here …
 HINT: Restore the policy the ledger was made with. If the table has the same records, declared in another way, carry the ledger over: tallyveil migrate POLICY. Only if it holds other people's records than before, start a new ledger file: a new ledger starts with the whole budget.
