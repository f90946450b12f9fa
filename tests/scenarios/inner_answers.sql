-- Conditions on records that compare with answers: these are bought first, then the rest.

\set largest SELECT state FROM person GROUP BY state ORDER BY count(*) DESC, state LIMIT 2

--- The largest groups are picked first, and both purchases are charged.
--@ noise = [0, 60, 90]
--@ budget.epsilon = 10

SELECT count(*) FROM person WHERE state IN (:largest);
 2110
 NOTICE: subquery: cost epsilon 0.1; interval ±30 at 95 %; 9.9 of 10 remains for person
 NOTICE: subquery: which rows come first is uncertain: the intervals of rows 2 and 3 in this order overlap
 NOTICE: cost epsilon 0.1; …; 9.8 of 10 remains for person
 SPENT 0.2
SELECT sql FROM dp.history;
 SELECT state FROM person GROUP BY state ORDER BY count(*) DESC, state LIMIT 2
 SELECT count(*) FROM person WHERE state IN ('WY', 'AK')

--- Any statement takes such a condition, and so does a common table.
--@ budget.epsilon = 100

SELECT sex, count(*) FROM person WHERE state NOT IN (:largest) AND age < 40 GROUP BY sex;
 F | 254
 M | 253
 other | 0
WITH top AS (:largest) SELECT count(*) FROM person WHERE state IN (SELECT state FROM top);
 2000
SELECT count(*) FROM person WHERE age > (SELECT avg(age) FROM person);
 1480
SELECT count(*) FROM person WHERE age > (SELECT avg(age) FROM person) AND state = (:largest OFFSET 1);
 ERROR 21000: more than one row returned by a subquery used as an expression
 HINT: Add LIMIT 1, or write IN (SELECT …).
SELECT state, count(*) FILTER (WHERE age > (SELECT max(a) - 1 FROM (SELECT age AS a, count(*) AS n FROM person GROUP BY age) AS t WHERE n > 20)) FROM person GROUP BY state;
 AL | 12
 AK | 13
 WY | 12
 other | 0
 NULL | 0
SELECT count(*) FROM person WHERE state NOT IN (SELECT state FROM person GROUP BY state HAVING count(*) > 5000);
 3000
SELECT count(*) FROM person WHERE state IN (SELECT state FROM person GROUP BY state HAVING count(*) > 5000);
 0
\bind ["F", 20]
SELECT count(*) FROM person WHERE age < $2 AND state = (SELECT state FROM person WHERE sex = $1 AND age < $2 GROUP BY state ORDER BY count(*), state OFFSET 2 LIMIT 1);
 253

--- What cannot be answered is refused before the first is charged.
--@ budget.epsilon = 0.15

SELECT count(*) FROM person WHERE state IN (:largest);
 ERROR 53400: the budget of table "person" does not allow this: it costs epsilon 0.2, and 0.15 remains for the records asked about most
SELECT count(*) FROM person WHERE ages > 3 AND state IN (:largest);
                                  ^
 ERROR 42703: column "ages" does not exist
SELECT count(*) FROM person WHERE state IN (:largest) AND ages > 3;
                                                                                                                               ^
 ERROR 42703: column "ages" does not exist
SELECT count(*) FROM person WHERE state IN (SELECT stat FROM person GROUP BY stat ORDER BY count(*) LIMIT 1);
                                                   ^
 ERROR 42703: column "stat" does not exist
SELECT count(*) FROM person WHERE state IN (SELECT state, count(*) FROM person GROUP BY state);
                                            ^
 ERROR 42601: subquery must return only one column
SELECT count(*) FROM person WHERE EXISTS (SELECT count(*) FROM person);
                                                 ^
 ERROR 0A000: a subquery over protected tables is not answered below an aggregation
SELECT count(*) FROM person AS p WHERE age > (SELECT avg(age) FROM person AS q WHERE q.state = p.state);
                                                                                               ^
 ERROR 0A000: a subquery over protected tables cannot refer to the query around it

--- EXPLAIN shows both, and that the second depends on the first.

EXPLAIN SELECT count(*) FROM person WHERE state IN (:largest);
 Answered first, at a cost of its own: SELECT state FROM person GROUP BY state ORDER BY count(*) DESC, state LIMIT 2
 …
 Cost: epsilon 0.1 of person's budget; 1 remains, 0.9 after
 Then the statement, with these answers as constants: SELECT count(*) FROM person WHERE state IN ('AK', 'AL')
   They are not known before they are bought: these are examples of what they may be
 …
 Cost: epsilon 0.1 of person's budget; 1 remains, 0.9 after
 FREE

--- History alone answers both.

SELECT state, count(*) FROM person GROUP BY state;
SET dp.source = history;
SELECT count(*) FROM person WHERE state IN (:largest);
 2000
 FREE

--- An inner answer may read the relations of schema dp, and stand in another one.

SELECT count(*) FROM person WHERE state IN (SELECT state FROM (SELECT state, count(*) AS n FROM person WHERE age < (SELECT max(age) - 98 FROM (SELECT age, count(*) FROM person GROUP BY age) AS a) GROUP BY state) AS t, dp.budget WHERE n > remaining);
 3000

--- With history alone, an answer that is not known is compared with nothing.

SET dp.source = history;
SELECT count(*) FROM person WHERE age > (SELECT avg(age) FROM person);
                                         ^
 ERROR 0A000: history does not determine the subquery, with which the statement compares
 HINT: SET dp.source = auto buys it, or ask about what history knows.
SELECT count(*) FROM person WHERE state IN (:largest);
                                            ^
 ERROR 0A000: history does not determine the subquery, with which the statement compares
SELECT count(*) FROM person WHERE state NOT IN (SELECT state FROM person GROUP BY state HAVING count(*) > 5000);
                                                ^
 ERROR 0A000: history does not determine the subquery, with which the statement compares
SELECT count(*) FROM person WHERE age > (SELECT median(age) FROM person);
                                         ^
 ERROR 0A000: history does not determine the subquery, with which the statement compares
SET dp.source = auto;
SELECT avg(age), count(*) FROM person;
 …
SET dp.source = history;
SELECT count(*) FROM person WHERE age > (SELECT avg(age) FROM person);
 NULL
 FREE

--- The example with which the second is planned is one under which its condition can hold.
--@ budget.epsilon = 0.15

SELECT count(*) FROM person WHERE age > (SELECT avg(age) FROM person);
 ERROR 53400: the budget of table "person" does not allow this: it costs epsilon 0.2, and 0.15 remains for the records asked about most
SELECT count(*) FROM person WHERE state IN (SELECT state FROM person GROUP BY state HAVING count(*) > 5000);
 ERROR 53400: the budget of table "person" does not allow this: it costs epsilon 0.2, and 0.15 remains for the records asked about most
SELECT count(*) FROM person WHERE state IN (SELECT state FROM person GROUP BY state HAVING count(*) < 10);
 ERROR 53400: the budget of table "person" does not allow this: it costs epsilon 0.2, and 0.15 remains for the records asked about most
SELECT count(*) FROM person WHERE age > (SELECT max(n) FROM (SELECT state, count(*) AS n FROM person GROUP BY state) AS t WHERE n < 10);
 ERROR 53400: the budget of table "person" does not allow this: it costs epsilon 0.2, and 0.15 remains for the records asked about most
EXPLAIN SELECT count(*) FROM person WHERE state IN (SELECT state FROM person GROUP BY state HAVING count(*) > 5000000);
 …
 Then the statement, with these answers as constants: SELECT count(*) FROM person WHERE state IN ('AL')
   They are not known before they are bought: these are examples of what they may be
 …
 Cost: epsilon 0.1 of person's budget; 0.15 remains, 0.05 after
\restart
--@ budget.epsilon = 100
SET dp.half_width = 100;
SELECT median(age) FROM person WHERE age > (SELECT avg(age) FROM person);
 ERROR 0A000: dp.half_width is for counts and sums: a quantile has no such interval

--- An answer that may lie between two steps is refused before it is bought, also if it need not.
--@ records = "SELECT i % 80 AS age, 'F' AS sex, 'AL' AS state, (i % 60) / 4 AS price FROM range(4002) t(i)"
--@ attributes.price = { range = [0, 1000], step = 0.25 }
--@ budget.epsilon = 100

SELECT count(*) FROM person WHERE price > (SELECT round(avg(price), 1) FROM person);
                                          ^
 ERROR 22023: the predicate cuts between two steps of price
 HINT: The subquery's answer is not always one of them: round it there, as in (SELECT round(avg(a) / 0.25) * 0.25 FROM …).
SELECT count(*) FROM person WHERE price > (SELECT count(*) / 8.0 FROM person WHERE price < 1);
                                          ^
 ERROR 22023: the predicate cuts between two steps of price

--- Of an attribute with steps, an average is rounded to a step before it is compared.
--@ records = "SELECT i % 80 AS age, 'F' AS sex, 'AL' AS state, CAST(i % 2001 / 100 AS DECIMAL(5, 2)) AS price FROM range(4002) t(i)"
--@ attributes.price = { range = [0, 20], step = 0.01 }
--@ budget.epsilon = 100

SELECT count(*) FROM person WHERE price > (SELECT avg(price) FROM person);
                                          ^
 ERROR 22023: the predicate cuts between two steps of price
 HINT: The subquery's answer is not always one of them: round it there, as in (SELECT round(avg(a) / 0.01) * 0.01 FROM …).
SELECT count(*) FROM person WHERE price > (SELECT round(avg(price), 2) FROM person);
 2000
SELECT count(*) FROM person WHERE price > (SELECT round(avg(price) / 0.01) * 0.01 FROM person);
 2000
SELECT count(*) FROM person WHERE price = (SELECT median(price) FROM person);
 2
