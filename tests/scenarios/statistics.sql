-- Distinct counts and quantiles, which are not linear in the counts, and MIN and MAX that are fixed.
--@ world = "census"

--- A distinct count costs epsilon once, and nothing when it is asked again, however it is written.
--@ noise = [3]

SELECT count(DISTINCT age) FROM person;
 93
 NOTICE: cost epsilon 0.05; interval ±60 at 95 %; 2.95 of 3 remains for person
SELECT approx_count_distinct(age + 1) AS ages FROM person WHERE state = state;
 93
 NOTICE: answered from history, free; interval ±60 at 95 %; 2.95 of 3 remains for person
 FREE
\restart
SELECT dp_interval_low(n), n, dp_interval_high(n), dp_stddev(n) FROM (SELECT count(DISTINCT age) AS n FROM person) AS t;
 33 | 93 | 153 | 28.28
 FREE

--- Groups are known by themselves, and a cell pays for its own group only.

SELECT sex, count(DISTINCT age // 10) AS n FROM person GROUP BY sex ORDER BY n DESC, sex LIMIT 2;
 F | 9
 M | 9
 SPENT 0.05
SELECT count(DISTINCT age // 10) FROM person WHERE sex = 'F';
 9
 FREE
SELECT sex, count(DISTINCT age // 10) FROM person WHERE sex IN ('F', 'M') GROUP BY sex HAVING count(DISTINCT age // 10) > 5;
 F | 9
 M | 9
 FREE
SELECT count(DISTINCT age // 10) FROM person WHERE sex IS NULL AND age < 35;
 4
 SPENT 0.1

--- Values that are NULL do not count, but rows of values do.

SELECT count(DISTINCT sex), count(DISTINCT (sex, state)), count(DISTINCT CASE WHEN age < 3 THEN sex END) FROM person;
 2 | 9 | 2
 SPENT 0.05

--- The cost of a statement is shared between its counts and its distinct counts and quantiles.

SELECT count(*), count(DISTINCT age), percentile_disc(0.5) WITHIN GROUP (ORDER BY age), sum(age) FROM person;
 9000 | 90 | 44 | 400500
 SPENT 0.05
SELECT count(*) FROM person;
 9000
 SPENT 0.1

--- A quantile is a declared value, and the notice has the bound of its error in ranks.
--@ defaults.epsilon = 1

SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY age), median(age) FROM person;
 44.0 | 44.0
 NOTICE: cost epsilon 1; quantiles are values at most 8 records from their rank at 95 %, by the exponential mechanism; where a group has fewer, they may be any value; 2 of 3 remains for person
SELECT state, percentile_disc(0.9) WITHIN GROUP (ORDER BY age), dp_interval_low(median(age)) FROM person GROUP BY state;
 AL | 78 | NULL
 AK | 79 | NULL
 WY | 80 | NULL
 SPENT 2

--- EXPLAIN shows what is asked of which values, and costs nothing.

EXPLAIN SELECT sex, count(DISTINCT age), median(age) FROM person GROUP BY sex;
 …
 Distinct count on person: 3 groups, 348 values over age, sex, by distinct_laplace, scale 40, interval ±120 at 95 %
 Quantile of rank 1/2 on person: 3 groups, 348 values over age, sex, by quantile, scale 20, at most 310 records from its rank at 95 %
 Known from history: 0 rows; to buy: 6
 Cost: epsilon 0.05 of person's budget; 3 remains, 2.95 after
 FREE
SELECT count(DISTINCT age) FROM person WHERE age > 200;
 0
 FREE

--- A half-width buys as much as it takes, and history alone buys nothing.

SET dp.half_width = 20;
SELECT count(DISTINCT age) FROM person;
 90
 NOTICE: cost epsilon 0.1460034153; interval ±20 at 95 %; 2.853996584 of 3 remains for person
SELECT median(age) FROM person;
 ERROR 0A000: dp.half_width is for counts and sums: a quantile has no such interval
 HINT: SET dp.epsilon or dp.rho to what the statement may cost.
SET dp.epsilon = 0.1;
SELECT count(DISTINCT age) FROM person;
 90
 FREE
SET dp.source = history;
SELECT count(DISTINCT age), count(DISTINCT sex) FROM person;
 90 | NULL
 NOTICE: answered from history, free; interval ±20 at 95 %; 2.853996584 of 3 remains for person
 HINT: NULL: earlier answers do not determine 1 of the 2 different numbers in the result. SET dp.source = auto to buy what is missing.
SET dp.source = fresh;
SELECT count(DISTINCT age) FROM person;
 90
 SPENT 0.2460034153

--- What the budget does not allow is not charged, and says what is known.
--@ budget.epsilon = 0.06

SELECT count(DISTINCT age) FROM person;
 90
SELECT count(DISTINCT sex), count(*) FROM person;
 ERROR 53400: the budget of table "person" does not allow this: it costs epsilon 0.05, and 0.01 remains for the records asked about most
 SPENT 0.05
SELECT median(age) FROM person;
 ERROR 53400: the budget of table "person" does not allow this: it costs epsilon 0.05, and 0.01 remains for the records asked about most
 SPENT 0.05

--- Who is replaced moves the numbers of two groups.
--@ neighbours = "replace"

SELECT sex, count(DISTINCT age), dp_stddev(count(DISTINCT age)) FROM person WHERE sex IS NOT NULL GROUP BY sex;
 F | 45 | 56.57
 M | 45 | 56.57
 SPENT 0.05

--- MIN and MAX of what WHERE and GROUP BY fix are free, also where nobody is.

SELECT sex, min(sex), max(sex), count(*) FROM person WHERE age > 100 GROUP BY sex;
 F | F | F | 0
 M | M | M | 0
 NULL | NULL | NULL | 0
SELECT max(state), min(age) FROM person WHERE state = 'AL' AND age = 115;
 AL | 115
 FREE
SELECT max(age) FROM person;
           ^
 ERROR 0A000: max of several values is decided by single records
 HINT: Ask for percentile_disc(0.99) WITHIN GROUP (ORDER BY attribute), or SET dp.extremes = on. max is answered of what WHERE or GROUP BY fixes.

--- MIN and MAX of several values are quantiles if the session asks for that, and say so each time.
--@ defaults.epsilon = 1

SET dp.extremes = on;
SELECT sex, min(sex), max(age), count(*) FROM person WHERE sex IS NOT NULL GROUP BY sex ORDER BY sex;
 F | F | 88 | 4090
 M | M | 89 | 4091
 WARNING: max is the quantile of rank 0.99 here, not the greatest value
 HINT: SET dp.extremes = off answers it only where WHERE or GROUP BY leave one value.
 NOTICE: cost epsilon 1; interval ±6 at 95 %; quantiles are values at most 31 records from their rank at 95 %, by the exponential mechanism; where a group has fewer, they may be any value; 2 of 3 remains for person
 SPENT 1
SELECT max(age) - min(age) AS range, max(age) FILTER (WHERE age < 10) AS young FROM person;
 89 | 9
 SPENT 2
SET dp.epsilon = 0.3;
SELECT percentile_disc(0.99) WITHIN GROUP (ORDER BY age) FROM person WHERE age < 10;
 9
 FREE
SELECT age, max(age) FROM person WHERE age IN (3, 4) GROUP BY age;
 3 | 3
 4 | 4
 FREE
SELECT max(n) FROM (SELECT sex, count(*) AS n FROM person GROUP BY sex) AS t;
 4091
SELECT max(sex) FROM person;
 ERROR 42804: max over records takes numbers, dates and timestamps only
RESET dp.extremes;
SELECT max(age) FROM person;
 ERROR 0A000: max of several values is decided by single records

--- A mode is a declared value that is among the most frequent, by the exponential mechanism.
--@ defaults.epsilon = 1

SELECT mode(state), mode(age) FILTER (WHERE age < 4 AND sex = 'M') FROM person WHERE state <> 'AL' OR age < 10;
 AK | 1
 NOTICE: cost epsilon 1; modes are values with at most 9 records fewer than the largest count at 95 %, by the exponential mechanism; 2 of 3 remains for person
 SPENT 1
SELECT sex, mode(state), count(*) FROM person GROUP BY sex ORDER BY sex NULLS LAST;
 F | WY | 4090
 M | AK | 4091
 NULL | AK | 819
 SPENT 2
\restart
SET dp.source = history;
SELECT mode(state) AS most FROM person WHERE sex = 'F';
 WY
 FREE
EXPLAIN SELECT mode(age) FROM person;
 …
 Mode on person: 1 group, 116 values over age, by mode, scale 0.5, at most 8 records fewer than the largest count at 95 %
 …

--- bool_or and bool_and are decided by the interval of a count, and NULL where it leaves doubt.
--@ defaults.epsilon = 0.5

SELECT bool_or(age > 80) FROM person;
 ERROR 0A000: bool_or over records is not answered
SET dp.extremes = on;
SELECT sex, bool_or(age > 80), bool_or(age > 100), bool_and(age < 90), every(age <> 3) FROM person WHERE sex IS NOT NULL GROUP BY sex ORDER BY sex;
 F | true | NULL | NULL | NULL
 M | true | NULL | NULL | false
 WARNING: bool_or and bool_and are decided by the interval of a count, and NULL where it leaves doubt
 HINT: Ask for count(*) FILTER (WHERE …) itself. SET dp.extremes = off refuses them.
 NOTICE: cost epsilon 0.5; interval ±6 to ±10 at 95 %; 2.5 of 3 remains for person
 SPENT 0.5
SELECT bool_or(age > 120), bool_and(age >= 0), bool_and(age < 50) FILTER (WHERE state = 'AL') FROM person HAVING bool_or(age < 70);
 false | true | false
SELECT bool_or(n > 1), bool_and(n > 9000) FROM (SELECT sex, count(*) AS n FROM person GROUP BY sex) AS t;
 true | false

--- A count that is too small takes what is beside it along.

SET dp.minimum_count = 10;
SELECT sex, count(*), median(age), count(DISTINCT age) FROM person WHERE age > 100 AND sex IS NOT NULL GROUP BY sex;
 F | NULL | NULL | NULL
 M | NULL | NULL | NULL

--- Settings and policies that cannot serve are named.
--@ mechanisms = ["laplace"]

SELECT count(DISTINCT age) FROM person;
 90
SELECT median(age) FROM person;
 ERROR 0A000: the policy of table "person" does not allow the mechanism of quantiles
SET dp.mechanism = gaussian;
SELECT count(DISTINCT age) FROM person WHERE age > 3;
 ERROR 0A000: gaussian cannot answer this about table "person": it is not among the mechanisms of its policy
SET dp.mechanism = 'fair(n=90)';
SELECT count(DISTINCT age) FROM person WHERE age > 3;
 ERROR 0A000: …
SET dp.mechanism = conditioned;
SELECT count(DISTINCT age) FROM person WHERE age > 3;
 ERROR 0A000: a distinct count takes independent noise, and dp.mechanism is conditioned
 HINT: SET dp.mechanism = auto.
SET dp.mechanism = auto;
SET dp.coverage = always;
SELECT count(DISTINCT age) FROM person;
 ERROR 0A000: dp.coverage = always is for counts and sums only
 HINT: SET dp.coverage = once.

--- Under rho the noise is Gaussian, and a quantile costs its epsilon squared by eight.
--@ budget = { rho = 1.0, delta = 1e-6 }
--@ defaults = { rho = 0.02 }

SELECT count(DISTINCT age), dp_stddev(count(DISTINCT age)) FROM person;
 90 | 5.0
 SPENT 0.02
EXPLAIN SELECT median(age) FROM person;
 …
 Quantile of rank 1/2 on person: 1 group, 116 values over age, by quantile, scale 1.25, at most 20 records from its rank at 95 %
 …

--- Where a unit has one row, its number is that of the rows.
--@ world = "people"
--@ records = "SELECT i // 2 AS pid, 'AL' AS state, i % 80 AS age, 'F' AS sex FROM range(300) t(i)"
--@ privacy_unit = { column = "pid", max_rows = 1 }

SELECT sex, count(DISTINCT pid), count(*) FILTER (WHERE age < 100) FROM person GROUP BY sex;
 F | 150 | 150
 M | 0 | 0
 other | 0 | 0
 SPENT 0.1

--- Where a unit may have several rows, units are counted once, and cost once: in all, or by group.
--@ world = "people"
--@ records = "SELECT i // 2 AS pid, ['AL', 'AK', 'WY'][1 + i % 3] AS state, i % 80 AS age, 'F' AS sex FROM range(300) t(i)"
--@ privacy_unit = { column = "pid", max_rows = 2 }

SELECT count(DISTINCT pid), dp_stddev(count(DISTINCT pid)) FROM person;
 150 | 14.13
 SPENT 0.1
SELECT count(DISTINCT person.pid) AS people FROM person WHERE sex = sex HAVING people > 1;
 150
 FREE
SELECT state, count(DISTINCT pid) AS people, dp_stddev(people) FROM person WHERE state IN ('AL', 'AK', 'WY') GROUP BY state ORDER BY state;
 AK | 100 | 28.28
 AL | 100 | 28.28
 WY | 100 | 28.28
 SPENT 0.2
SELECT count(DISTINCT pid) FILTER (WHERE state = 'AL'), count(DISTINCT CASE WHEN state = 'AK' THEN pid END) FROM person;
 100 | 100
 FREE
SELECT count(DISTINCT pid) FROM (SELECT pid, age FROM person WHERE state = 'WY') AS t WHERE age < 0;
 0
 FREE
EXPLAIN SELECT count(DISTINCT pid) FROM person WHERE age < 10;
 …
 Number of units on person: 1 group, over age, by units_laplace, scale 10, interval ±30 at 95 %
 …
SELECT count(DISTINCT age), dp_stddev(count(DISTINCT age)) FROM person;
 80 | 28.28
 SPENT 0.3
SELECT pid, count(*) FROM person GROUP BY pid;
 ERROR 42703: column "pid" names the privacy units, which are only counted
 HINT: count(DISTINCT pid) counts them, and count(*)::numeric / count(DISTINCT pid) is how many rows they have on average.
SELECT avg(n) FROM (SELECT pid, count(*) AS n FROM person GROUP BY pid) AS t;
 ERROR 42703: column "pid" names the privacy units, which are only counted
 HINT: count(DISTINCT pid) counts them, and count(*)::numeric / count(DISTINCT pid) is how many rows they have on average.
SELECT count(*)::numeric / count(DISTINCT pid) FROM person;
 2.0
SELECT count(DISTINCT a.pid) FROM person AS a JOIN person AS b ON a.pid = b.pid;
 ERROR 0A000: joining records with records is not answered: one record could change many rows

--- A unit is charged for what moves, and others are replaced by moves of two.
--@ world = "people"
--@ records = "SELECT i // 2 AS pid, ['AL', 'AK', 'WY'][1 + i % 3] AS state, i % 80 AS age, 'F' AS sex FROM range(300) t(i)"
--@ privacy_unit = { column = "pid", max_rows = 2 }
--@ neighbours = "replace"
--@ budget = { rho = 1.0, delta = 1e-6 }
--@ defaults = { rho = 0.02 }

SELECT count(DISTINCT pid), dp_stddev(count(DISTINCT pid)) FROM person;
 150 | 5.0
 SPENT 0.02
SELECT state, count(DISTINCT pid) AS people, dp_stddev(people) FROM person GROUP BY state ORDER BY state NULLS LAST LIMIT 1;
 AK | 100 | 10.0
 SPENT 0.04

--- Over the wire they are PostgreSQL's.
--@ only = "over the wire"
--@ defaults.epsilon = 1

SELECT sex, count(DISTINCT (age, state)), percentile_cont(0.25) WITHIN GROUP (ORDER BY age), max(sex) FROM person WHERE sex IS NOT NULL GROUP BY sex ORDER BY sex;
 F | 45 | 22.0 | F
 M | 45 | 23.0 | M
 SPENT 1
\bind [0.75]
SELECT percentile_disc($1) WITHIN GROUP (ORDER BY age) AS upper, count(DISTINCT state) FROM person;
 67 | 3
 SPENT 2
SELECT percentile_disc(0.75) WITHIN GROUP (ORDER BY n) FROM (SELECT sex, count(DISTINCT age) AS n FROM person GROUP BY sex) AS t;
 90

--- Quotients with them are answered, and have no interval; multiples and differences neither.

SELECT count(DISTINCT sex) * 1.0 / count(*) > 0, count(*) * 1.0 / nullif(count(DISTINCT sex), 0) > 0, median(age) / count(*) > 0 FROM person;
 true | true | true
SELECT dp_interval_low(count(DISTINCT sex) * 2) FROM person;
 ERROR 0A000: …
SELECT dp_interval_low(count(DISTINCT sex) - count(*)) FROM person;
 ERROR 0A000: …
SELECT sex, round(100.0 * count(DISTINCT age) / count(*), 1) > 0 FROM person WHERE sex = 'F' GROUP BY sex;
 F | true
