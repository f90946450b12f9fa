-- Conditions on groups that pick some of them: what is bought are these groups alone.

--- HAVING, a subquery and a common table that is read once pick groups before they are bought.

EXPLAIN SELECT sex, count(*) FROM person GROUP BY sex HAVING sex = 'F';
 …
   aggregate 1: 1 row, 1 non-zero coefficient, sensitivity 1 (add_remove), scale 10, interval ±30 at 95 %
 …
EXPLAIN SELECT * FROM (SELECT * FROM (SELECT sex, count(*) AS n FROM person GROUP BY sex) AS q) AS r WHERE sex IN ('F', 'M') AND n > 0;
 …
   aggregate 1: 2 rows, 2 non-zero coefficients, sensitivity 1 (add_remove), scale 10, interval ±30 at 95 %
 …
EXPLAIN WITH q AS (SELECT sex, age // 50 AS half, count(*) AS n FROM person GROUP BY 1, 2) SELECT sex, sum(n) FROM q WHERE half BETWEEN 1 AND 1 GROUP BY sex HAVING sex IS NOT NULL;
 …
   aggregate 1: 3 rows, 150 non-zero coefficients, sensitivity 1 (add_remove), scale 10, interval ±30 at 95 %
 …
SELECT sex, n FROM (SELECT sex, count(*) AS n FROM person GROUP BY sex) AS q WHERE sex = 'F';
 F | 1500
 SPENT 0.1
SELECT sex, n FROM (SELECT sex, count(*) AS n FROM person GROUP BY sex) AS q WHERE sex = 'M';
 M | 1500
 SPENT 0.1
SELECT sex, count(*) FROM person GROUP BY sex HAVING sex = 'F' OR sex = 'M' ORDER BY sex;
 F | 1500
 M | 1500
 SPENT 0.1

--- All groups are needed where a row of the result depends on others: ranks, LIMIT, a second reading, totals.

EXPLAIN SELECT * FROM (SELECT sex, count(*) AS n, rank() OVER (ORDER BY count(*)) AS r FROM person GROUP BY sex) AS q WHERE sex = 'F';
 …
   aggregate 1: 3 rows, 3 non-zero coefficients, sensitivity 1 (add_remove), scale 10, interval ±30 at 95 %
 …
EXPLAIN SELECT * FROM (SELECT sex, count(*) AS n FROM person GROUP BY sex ORDER BY n LIMIT 1) AS q WHERE sex = 'F';
 …
   aggregate 1: 3 rows, 3 non-zero coefficients, sensitivity 1 (add_remove), scale 10, interval ±30 at 95 %
 …
EXPLAIN WITH q AS (SELECT sex, count(*) AS n FROM person GROUP BY sex) SELECT n, (SELECT sum(n) FROM q) FROM q WHERE sex = 'F';
 …
   aggregate 1: 3 rows, 3 non-zero coefficients, sensitivity 1 (add_remove), scale 10, interval ±30 at 95 %
 …
SELECT sex, count(*) FROM person GROUP BY ROLLUP (sex) HAVING sex IS NULL;
 NULL | 3000
