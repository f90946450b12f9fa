-- What a client receives: rows, costs, errors.
--@ world = "census"

--- A count costs epsilon once however it is written.
--@ noise = [7, -4]

SELECT count(*) FROM person WHERE age BETWEEN 20 AND 29 AND sex = 'F';
 462
 SPENT 0.05
SELECT count(sex) AS n FROM person p WHERE p.sex IN ('F') AND p.age >= 20 AND age < 30;
 462
 FREE
\bind [20, 29, ["F"]]
SELECT count(*) FROM person WHERE age BETWEEN $1 AND $2 AND sex = ANY($3);
 462
 FREE

--- A GROUP BY answers the declared groups.
-- Nobody is that old, yet every declared group is there: its presence says nothing.

SELECT state, sex, count(*) FROM person WHERE age > 100 GROUP BY 1, 2;
 AL | F | 0
 AL | M | 0
 AL | NULL | 0
 AK | F | 0
 AK | M | 0
 AK | NULL | 0
 WY | F | 0
 WY | M | 0
 WY | NULL | 0
 SPENT 0.05
SELECT DISTINCT sex AS v FROM person ORDER BY 1;
 F
 M
 NULL
 FREE

--- HAVING, ORDER BY and LIMIT work on the noisy rows.
--@ noise = [100, -400, 250, 40, -30]

SELECT income, count(*) FROM person GROUP BY income;
 0 | 1316
 15000 | 816
 30000 | 2683
 60000 | 4175
SELECT income, count(*) AS n FROM person GROUP BY income HAVING count(*) > -1000000 ORDER BY n DESC LIMIT 2;
 60000 | 4175
 30000 | 2683
 FREE

--- A notice has the cost, the interval and what remains.
-- 60 is the least h with P(|K| <= h) >= 0.95 at scale 20.

SELECT dp_interval_low(n), count(*) AS n, dp_interval_high(count(*)) FROM person;
 8940 | 9000 | 9060
 NOTICE: cost epsilon 0.05; interval ±60 at 95 %; 2.95 of 3 remains for person
SELECT count(*) FROM person;
 NOTICE: answered from history, free; interval ±60 at 95 %; 2.95 of 3 remains for person
SET dp.notices = off;
SELECT count(*) FROM person;
 NOTICE: none
SET dp.half_width = 10;
SELECT dp_interval_high(n) - count(*), count(*) AS n FROM person WHERE age = 3;
 10 | 100

--- Public relations show what was spent, asked and set.

\connect alice
SELECT count(*) FROM person WHERE age = 30;
SELECT analyst, table_name, budget, spent, remaining, most_expensive FROM dp.budget;
 NULL | person | 3.0 | 0.05 | 2.95 | age = 30
SELECT analyst, sql, cost FROM dp.history;
 alice | SELECT count(*) FROM person WHERE age = 30 | 0.05
SELECT value FROM dp.settings WHERE name = 'dp.epsilon';
 0.05
SELECT attribute FROM dp.attributes;
 state
 age
 sex
 income
SELECT nosuch FROM dp.history;
       ^
 ERROR 42703: …olumn "nosuch"…
SELECT cost, nosuch + 1 AS n FROM dp.history;
             ^
 ERROR 42703: …olumn "nosuch"…

--- A refusal names its place and costs nothing.
--@ only = "over the wire"

SELECT count(*) FORM person;
                     ^
 ERROR 42601: syntax error at or near "person"
SELECT count(*) FROM people;
                     ^
 ERROR 42P01: relation "people" does not exist
 HINT: SELECT * FROM dp.attributes lists the tables and attributes.
SELECT count(*) FROM person WHERE moved IS NULL;
                                  ^
 ERROR 42703: column "moved" does not exist
 HINT: The attributes of person are state, age, sex, income.
SELECT * FROM person;
       ^
 ERROR 0A000: rows of a protected table are not answered
 HINT: Ask for counts: SELECT attribute, count(*) FROM table GROUP BY attribute. SELECT DISTINCT attribute lists the declared values, free of charge.
SELECT age FROM person;
       ^
 ERROR 0A000: rows of a protected table are not answered
 HINT: Ask for counts: SELECT attribute, count(*) FROM table GROUP BY attribute. SELECT DISTINCT attribute lists the declared values, free of charge.
SELECT sum(DISTINCT age) FROM person;
       ^
 ERROR 0A000: sum(DISTINCT …) is not answered: it is not a sum over records
 HINT: count(DISTINCT attribute) is answered, and SELECT DISTINCT attribute lists the declared values, free of charge.
SELECT max(age) FROM person;
       ^
 ERROR 0A000: max of several values is decided by single records
 HINT: Ask for percentile_disc(0.99) WITHIN GROUP (ORDER BY attribute), or SET dp.extremes = on. max is answered of what WHERE or GROUP BY fixes.
SELECT count(*) FROM person WHERE random() < 0.5;
                                  ^
 ERROR 0A000: random() is not answered
 HINT: Answers must depend on the statement alone.
SELECT count(*) FROM person WHERE income > 20000;
                                  ^
 ERROR 22023: the predicate cuts through a bin of income
 DETAIL: income is known only by bins [a, b): 20000 lies inside the bin [15000, 30000).
 HINT: The nearest edges are 15000 and 30000: use income < or >= one.
SELECT count(*) FROM person WHERE income >= 20000;
                                  ^
 ERROR 22023: the predicate cuts through a bin of income
 DETAIL: income is known only by bins [a, b): 20000 lies inside the bin [15000, 30000).
 HINT: The nearest edges are 15000 and 30000: use income < or >= one.
SELECT state, age, count(*) FROM person GROUP BY state;
              ^
 ERROR 42803: column "age" must appear in GROUP BY or inside an aggregate
SELECT count(*) FROM person TABLESAMPLE BERNOULLI (10);
                                                   ^
 ERROR 0A000: TABLESAMPLE is not answered
 HINT: Ask for the whole table: sampling would not lower the cost.
SELECT count(*) FROM person a JOIN person b ON a.age = b.age;
                                   ^
 ERROR 0A000: joining records with records is not answered: one record could change many rows
 HINT: Ask about one protected table at a time; join the results of two queries that count.
DELETE FROM person;
^
 ERROR 0A000: DELETE is not answered
 HINT: Analysts can only read.
SELEC count(*) FROM person;
^
 ERROR 42601: syntax error at or near "SELEC"
 HINT: Ask a SELECT with COUNT, SUM or AVG over a protected table.
SELECT 1; 42;
          ^
 ERROR 42601: syntax error at or near "42"
 HINT: Ask a SELECT with COUNT, SUM or AVG over a protected table.
COPY person TO STDOUT;
^
 ERROR 0A000: COPY of a table is not answered
 HINT: Write COPY (SELECT …) TO STDOUT.
COPY (SELECT count(*) FORM person) TO STDOUT;
                           ^
 ERROR 42601: syntax error at or near "person"
EXPLAIN SELECT count(*) FORM person;
                             ^
 ERROR 42601: syntax error at or near "person"
SELECT 1; SELECT count(*) FROM nowhere;
                               ^
 ERROR 42P01: relation "nowhere" does not exist
 HINT: SELECT * FROM dp.attributes lists the tables and attributes.
-- The source has a table people and a column moved that the policy does not declare.
SELECT count(*) FROM peopl;
                     ^
 ERROR 42P01: relation "peopl" does not exist
 HINT: SELECT * FROM dp.attributes lists the tables and attributes.
SELECT count(move) FROM person;
             ^
 ERROR 42703: column "move" does not exist
 HINT: The attributes of person are state, age, sex, income.
 SPENT 0

--- What is planned or fails costs nothing, and what is rolled back is not refunded.
--@ only = "over the wire"

EXPLAIN SELECT count(*) FROM person WHERE age < 40;
 …
 … sensitivity 1 (add_remove), …
 …
 Cost: epsilon 0.05 of person's budget; 3 remains, 2.95 after
PREPARE counted AS SELECT count(*) FROM person WHERE age < 40;
EXPLAIN EXECUTE counted;
        ^
 ERROR 0A000: EXPLAIN EXECUTE is not answered
 HINT: EXPLAIN the query itself, with the values written into it.
BEGIN;
SELECT count(*) FROM nowhere;
 ERROR 42P01: …
SELECT count(*) FROM person WHERE age < 40;
 ERROR 25P02: current transaction is aborted, commands ignored until end of transaction block
 HINT: Send ROLLBACK first.
ROLLBACK;
 SPENT 0
BEGIN;
SELECT count(*) FROM person WHERE age < 40;
 4000
ROLLBACK;
 SPENT 0.05
EXECUTE counted;
 4000
 FREE

--- The budget is a filter.
--@ budget.epsilon = 0.15

SET dp.source = fresh;
SELECT count(*) FROM person WHERE age < 50;
SELECT count(*) FROM person WHERE age < 50;
SELECT count(*) FROM person WHERE age < 50;
 SPENT 0.15
SELECT count(*) FROM person WHERE age < 20;
 ERROR 53400: the budget of table "person" does not allow this: it costs epsilon 0.05, and 0 remains for the records asked about most
 HINT: Ask about records with budget left; history does not determine this.
-- Other cells have not been asked about.
SELECT count(*) FROM person WHERE age >= 50;
 4000
 SPENT 0.15
