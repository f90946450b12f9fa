-- Grouping sets: one release, its cost, its intervals, and the choice that a target makes.

--- A summed row is the sum and its interval that of the sum.
--@ noise = [4, -1, 8]

EXPLAIN SELECT grouping(sex) AS g, count(*) AS n FROM person GROUP BY ROLLUP (sex);
 …
 Grouping set (sex): released
 Grouping set (): summed up from (sex)
 …
SELECT grouping(sex) AS g, count(*) AS n, dp_interval_high(n) - count(*) AS h FROM person GROUP BY ROLLUP (sex);
 0 | 1504 | 30
 0 | 1499 | 30
 0 | 8 | 30
 1 | 3011 | 50
 SPENT 0.1
-- History knows the sums of what it knows.
SELECT sex, count(*) FROM person GROUP BY sex;
 FREE
SET dp.source = history;
SELECT count(*) FROM person;
 3011
SELECT max(n) FILTER (WHERE g = 1), count(n) FILTER (WHERE g = 0) FROM (SELECT grouping(age) AS g, count(*) AS n FROM person GROUP BY ROLLUP (age)) AS t;
 3011 | 0

--- A target for the interval is met by every row.
--@ defaults.half_width = 30

SELECT max(h) FROM (SELECT dp_interval_high(n) - n AS h FROM (SELECT count(*) AS n FROM person GROUP BY ROLLUP (sex)) AS s) AS t;
 30

--- History knows a total whose groups it does not know.
--@ noise = [7]

SELECT count(*) FROM person;
 3007
SET dp.source = history;
SELECT grouping(sex) AS g, count(*) AS n FROM person GROUP BY ROLLUP (sex);
 0 | NULL
 0 | NULL
 0 | NULL
 1 | 3007

--- History sums up more groups than it looks at together.
--@ records = "SELECT i % 1500 AS a, i % 2 AS b FROM range(3000) t(i)"
--@ attributes = { a.range = [0, 1499], b.range = [0, 1] }
--@ noise = [3, -2, 6, -9, 2]

\set sums SELECT count(n), sum(n * (a + 1)), max(n) FROM (SELECT a, b, count(*) AS n FROM person GROUP BY ROLLUP (a, b)) AS t

:sums;
 4501 | 4497600 | 3003
SET dp.source = history;
:sums;
 4501 | 4497600 | 3003
 FREE

--- A sum of no groups is exactly nothing.
-- No declared record has such a key, and the whole is there nevertheless.

SELECT grouping(sex) AS g, count(*) AS n, dp_interval_high(n) - count(*) AS h FROM person WHERE age < 0 GROUP BY ROLLUP (sex);
 1 | 0 | 0
 SPENT 0
