-- What statements cost, as the budget shows it: per cell, under both neighbouring relations.

--- Disjoint predicates share a budget.

SELECT count(*) FROM person WHERE age = 3;
 38
 NOTICE: cost epsilon 0.1; interval ±30 at 95 %; 0.9 of 1 remains for person
SELECT count(*) FROM person WHERE age = 4;
 38
 SPENT 0.1
SELECT count(*) FROM person WHERE age = 90;
 0
 SPENT 0.1

--- Overlapping predicates add up.

SELECT count(*) FROM person WHERE age < 50;
SELECT count(*) FROM person WHERE age >= 40;
 SPENT 0.2

--- Disjoint aggregates have the whole epsilon each, since no record is in both.

SELECT count(*) FILTER (WHERE sex = 'F') AS f, dp_interval_high(f),
    count(*) FILTER (WHERE sex = 'M') AS m, dp_interval_high(m) FROM person;
 1500 | 1530 | 1500 | 1530
 SPENT 0.1

--- A statement costs epsilon however many aggregates it has.

SELECT count(*), sum(age), count(*) FILTER (WHERE age < 9) FROM person;
 3000 | 117700 | 342
 SPENT 0.1

--- A difference is one query.

SELECT dp_interval_low(d), count(*) FILTER (WHERE sex = 'F') - count(*) FILTER (WHERE age < 40) AS d FROM person;
 -50 | -20
 SPENT 0.1

--- Sensitivity follows the largest value.

EXPLAIN SELECT sum(age) FROM person WHERE age < 50;
 …
   aggregate 1: 1 row, 49 non-zero coefficients, sensitivity 49 (add_remove), scale 490, interval ±1468 at 95 %
 …

--- Replacing a record moves two groups by one each, and a count of all not at all.
--@ neighbours = "replace"

EXPLAIN SELECT sex, count(*) FROM person GROUP BY sex;
 …
   aggregate 1: 3 rows, 3 non-zero coefficients, sensitivity 2 (replace), scale 20, interval ±60 at 95 %
 …
SELECT count(*) FROM person;
 3000
 FREE
SELECT count(*) FROM person WHERE age = 1;
SELECT count(*) FROM person WHERE age = 2;
 SPENT 0.2

--- A total is not public where the domain leaves out records.
--@ neighbours = "replace"
--@ attributes.age.range = [0, 99]

SELECT count(*) FROM person;
 SPENT 0.1

--- Nor where a record may be exchanged across a filter.
--@ neighbours = "replace"
--@ from = "SELECT * FROM people WHERE age < 40"

SELECT count(*) FROM person;
 1520
 SPENT 0.1

--- Nor where a unit has rows of its own.
--@ neighbours = "replace"
--@ privacy_unit = { column = "age", max_rows = 1 }

SELECT count(*) FROM person;
 80
 SPENT 0.1

--- A view may filter, so it has no public total.
--@ neighbours = "replace"
--@ from = "young"
--@ sources = ["CREATE VIEW young AS SELECT * FROM people WHERE age < 40"]

\connect analyst
 ERROR 58030: tables.person.from: young may filter its rows, as a view does: under neighbours = "replace" its number of rows would be published exactly
 HINT: Write from = "SELECT * FROM young": then count(*) has noise.

--- A unit of several rows costs as many times.
--@ privacy_unit = { column = "age", max_rows = 3 }
--@ attributes.sex.values = ["F", "M"]

EXPLAIN SELECT count(*) FROM person;
 …
   aggregate 1: 1 row, 1 non-zero coefficient, sensitivity 3: 1 × 3 rows (add_remove), scale 30, interval ±90 at 95 %
 …
SELECT count(*) FROM person;
 240
 NOTICE: cost epsilon 0.1; interval ±90 at 95 %; 0.9 of 1 remains for person
 NOTICE: person: at most 3 rows of each age are counted, and totals are too low where one has more
 SPENT 0.1

--- A session is told once that not all rows are counted.
--@ privacy_unit = { column = "age", max_rows = 1 }
--@ attributes.sex.values = ["F", "M"]

SELECT count(*) FROM person;
 80
 NOTICE: cost epsilon 0.1; interval ±30 at 95 %; 0.9 of 1 remains for person
 NOTICE: person: at most 1 row of each age is counted, and totals are too low where one has more
SELECT sex, count(*) FROM person GROUP BY sex;
 F | 40
 M | 40
 NOTICE: cost epsilon 0.1; interval ±23.6667 at 95 %; 0.8 of 1 remains for person

--- More precision is bought and less is free.
--@ noise = [5, -1]

SELECT count(*) FROM person;
 3005
SET dp.epsilon = 0.3;
SELECT count(*) FROM person;
 3000
 SPENT 0.4
SET dp.epsilon = 0.1;
SELECT count(*) FROM person;
 3000
 FREE

--- Only the missing groups are bought.
--@ noise = [5, 0]

SELECT count(*) FROM person WHERE state = 'AK';
 1005
SELECT state, count(*) FROM person GROUP BY state ORDER BY state;
 AK | 1005
 AL | 1000
 WY | 1005
 other | 0
 NULL | 5
 SPENT 0.1

--- What is refused for its budget leaves the budget as it was.
--@ budget.epsilon = 0.25

SELECT count(*) FROM person;
SET dp.epsilon = 0.2;
SELECT count(*) FROM person WHERE age = 3;
 ERROR 53400: the budget of table "person" does not allow this: it costs epsilon 0.2, and 0.15 remains for the records asked about most
 HINT: SET dp.epsilon to at most 0.15, which buys ±20 at 95 %, or ask about records with budget left; history does not determine this.
SELECT remaining FROM dp.budget;
 0.15
SET dp.epsilon = 0.15;
SELECT count(*) FROM person WHERE age = 3;
 SPENT 0.25

--- Two aggregating queries in one statement are paid together.
--@ budget.epsilon = 0.25

SELECT state, count(*) FROM person GROUP BY state UNION ALL SELECT 'all', count(*) FROM person;
 SPENT 0.1

--- A target needs no default epsilon.
--@ defaults = { half_width = 40, confidence = 0.9 }

SELECT dp_interval_low(n), count(*) AS n, dp_interval_high(n) FROM person;
 2960 | 3000 | 3040
WITH c AS (SELECT count(*) AS n FROM person) SELECT dp_interval_low(n), *, dp_interval_high(n) FROM (SELECT * FROM c) t;
 2960 | 3000 | 3040

--- An epsilon beyond all noise is refused.

SET dp.epsilon = 1e-15;
SELECT count(*) FROM person;
 ERROR 22023: epsilon 1e-15 is too small to calibrate noise to
SET dp.epsilon = 1e-30;
SELECT count(*) FROM person;
 ERROR 22023: epsilon 1e-30 is too small to calibrate noise to
SET dp.epsilon = 1e14;
SELECT count(*) FROM person;
 ERROR 22023: a noise scale must be from 9e-10 to 5e+15, not 1.0000000000000002e-14

--- The smallest cost is a picoepsilon.
--@ limits.least_cost = 0

SET dp.epsilon = 1e-12;
SELECT count(*) FROM person;
SELECT spent FROM dp.budget;
 1e-12

--- The example of the mathematics: of four cells the third pays most.
-- BAYES eq. 20 and 22: the counts cost 0.05, 0.1 and 0.1, and 2 and 3 are in two of them.
--@ attributes.cell = { range = [1, 4], column = "age", clamp = true, nullable = true }

SET dp.epsilon = 0.05;
SELECT count(*) FROM person WHERE cell = 1;
SET dp.epsilon = 0.1;
SELECT count(*) FROM person WHERE cell IN (2, 3);
SELECT count(*) FROM person WHERE cell IN (2, 3, 4);
 SPENT 0.2

--- A count without groups is no part of what is bought.

SELECT sex, count(*) FROM person WHERE false GROUP BY sex UNION ALL SELECT 'all', count(*) FROM person;
 all | 3000
 SPENT 0.1
SELECT count(*) FROM person;
 3000
 FREE

--- A question without groups is answered and costs nothing.

SELECT sex, count(*) AS n FROM person WHERE false GROUP BY sex HAVING count(*) > 0;
 (no rows)
 FREE
SELECT * FROM (SELECT sex, count(*) AS n FROM person GROUP BY sex HAVING count(*) > 0) AS a
    JOIN (SELECT sex, count(*) AS n FROM person WHERE false GROUP BY sex HAVING count(*) > 0) AS b ON a.sex = b.sex;
 (no rows)
 SPENT 0.1
SELECT sex, count(*) AS n FROM person WHERE age = -5 GROUP BY sex HAVING count(*) > 0;
 (no rows)
 FREE
SELECT sex, count(*) AS n FROM person WHERE age = -5 GROUP BY sex
    HAVING count(*) > 0 AND count(*) <> (SELECT count(*) FROM person);
 (no rows)
 SPENT 0.2

--- What was paid for is answered though a constant is zero.
--@ only = "over the wire"

SELECT count(*) / 0, count(*) % (1 - 1), count(*) FROM person;
 NULL | NULL | 3000
SELECT 1 / 0;
 ERROR 22012: division by zero
 DETAIL: The expression divides by zero somewhere in the public domain.
 HINT: Guard the divisor with NULLIF(…, 0).
