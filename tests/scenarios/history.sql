-- Answers from everything released: free where it suffices, and topped up where it does not.

\set by_sex SELECT sex, count(*) AS n, dp_interval_high(n) - n AS half FROM person GROUP BY 1
\set whole SELECT count(*) AS n, dp_interval_high(n) - n AS half FROM person

--- A total is the sum of its groups.
-- The law of a sum of three noises of scale 10 has ±50 at 95 %.
--@ noise = [3, -8, 4]

SET dp.source = history;
:whole;
 NULL | NULL
SET dp.source = auto;
:by_sex;
 F | 1503 | 30
 M | 1492 | 30
 other | 4 | 30
 SPENT 0.1
SET dp.source = history;
:whole;
 2999 | 50
:whole;
 2999 | 50
SELECT count(*) FROM person WHERE age = 3;
 NULL
 SPENT 0.1

--- A part follows from the whole and the other parts.
--@ noise = [7, -2]

:whole;
 3007 | 30
SELECT count(*) FROM person WHERE sex = 'F';
 1498
 SPENT 0.2
SET dp.source = history;
SELECT count(*) FROM person WHERE sex <> 'F';
 1509

--- A target is topped up for less than it costs alone, and only where it falls short.
-- Alone ±20 costs 0.1476; the first answers were known to ±30.

:by_sex;
 F | 1500 | 30
 M | 1500 | 30
 other | 0 | 30
 SPENT 0.1
SET dp.half_width = 20;
EXPLAIN :by_sex;
 …
   aggregate 1: … scale 9.4707… (6.8491… by itself), interval ±20 at 95 %
 Known from history: 3 rows, interval ±30 at 95 % or better; to buy: 3
 Cost: epsilon 0.10558… of person's budget; 0.9 remains, 0.7944… after
:by_sex;
 F | 1500 | 20
 M | 1500 | 20
 other | 0 | 20
 SPENT 0.205589
:by_sex;
 FREE

--- Other groups are other people.

SET dp.half_width = 15;
SELECT count(*) FROM person WHERE sex = 'F';
 SPENT 0.192973
:by_sex;
 F | 1500 | 15
 M | 1500 | 15
 other | 0 | 15
 SPENT 0.192973

--- A cost is free where history is as precise.
-- The variance of a sum of three at epsilon 0.3 is less than that of one at 0.1.

SET dp.epsilon = 0.3;
:by_sex;
SET dp.epsilon = 0.1;
:whole;
 3000 | 17
 SPENT 0.3
SET dp.epsilon = 0.2;
:whole;
 3000 | 11
 SPENT 0.5

--- Fresh answers are bought in spite of history, and recorded.

:whole;
 3000 | 30
SET dp.source = fresh;
:whole;
 3000 | 30
 SPENT 0.2
SET dp.source = history;
:whole;
 3000 | 21

--- A refusal says what history and the rest of the budget give.
--@ budget.epsilon = 0.3

:by_sex;
SET dp.half_width = 2;
:by_sex;
 ERROR 53400: the budget of table "person" does not allow this: it costs epsilon 1.13688, and 0.2 remains for the records asked about most
 HINT: SET dp.epsilon to at most 0.2, which buys ±15 at 95 %, or SET dp.source = history for what is known already, ±30 at 95 %.

--- What followed from history stays free and as precise, after a restart too.
--@ budget.epsilon = 100

SET dp.epsilon = 0.3;
:whole;
SELECT count(*) FROM person WHERE sex = 'F';
SELECT sex, state, count(*) FROM person GROUP BY 1, 2;
SET dp.half_width = 20;
:by_sex;
 F | 1500 | 8
 M | 1500 | 16
 other | 0 | 16
 SPENT 0.9
\restart
SET dp.half_width = 20;
:by_sex;
 F | 1500 | 8
 M | 1500 | 16
 other | 0 | 16
 FREE

--- A notice counts what history does not determine.

SET dp.source = history;
:whole;
 NULL | NULL
 NOTICE: answered from history, free; 1 of 1 remains for person
 HINT: NULL: earlier answers do not determine it. SET dp.source = auto to buy what is missing.
SELECT state, count(*) FROM person GROUP BY 1;
 NOTICE: answered from history, free; 1 of 1 remains for person
 HINT: NULL: earlier answers do not determine any of the 5 different numbers in the result. SET dp.source = auto to buy what is missing.
SET dp.source = auto;
SELECT count(*) FROM person WHERE state = 'AL';
SET dp.source = history;
SELECT state, count(*) FROM person GROUP BY 1;
 NOTICE: answered from history, free; interval ±30 at 95 %; 0.9 of 1 remains for person
 HINT: NULL: earlier answers do not determine 4 of the 5 different numbers in the result. SET dp.source = auto to buy what is missing.

--- What was sold before a rule of inference control stays, but gets no sharper.
--@ budget.epsilon = 1000

\set women SELECT count(*) AS n, dp_interval_low(n), dp_interval_high(n) FROM person WHERE sex = 'F'
SET dp.half_width = 1;
:women;
 1500 | 1499 | 1501
\restart
--@ inference_control = { min_half_width = 5 }
SET dp.half_width = 3;
:women;
 1500 | 1499 | 1501
 FREE
SET dp.source = fresh;
:women;
 ERROR 42501: the inference control of table "person" does not allow this: a count would be known to less than ±5 at 95 %
 DETAIL: Earlier answers count too, and so do the differences of two groups.
 HINT: SET dp.source = history for what is known already, or ask for fewer groups or a wider interval.
SET dp.source = auto;
SET dp.half_width = 8;
SELECT count(*) FROM person WHERE sex = 'M';
SELECT count(*) FROM dp.history;
 2
