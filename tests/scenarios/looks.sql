-- Intervals over all looks: SET dp.coverage = always.

\set by_state SELECT state, n, dp_interval_low(n) - n AS low, dp_interval_high(n) - n AS high FROM (SELECT state, count(*) AS n FROM person GROUP BY 1) AS t
\set total SELECT n, dp_interval_low(n), dp_interval_high(n) FROM (SELECT count(*) AS n FROM person) AS t

--- They take one more setting, and are wider.

SHOW dp.coverage;
 once
:by_state;
 AK | 1000 | -30 | 30
 …
SET dp.coverage = ALWAYS;
:by_state;
 AL | 1000 | -38 | 38
 AK | 1000 | -38 | 38
 WY | 1000 | -38 | 38
 other | 0 | -38 | 38
 NULL | 0 | -38 | 38
 NOTICE: answered from history, free; interval ±38 at 95 % over all looks; 0.9 of 1 remains for person
RESET dp.coverage;
:by_state;
 AK | 1000 | -30 | 30
 …
SET dp.coverage = sometimes;
 ERROR 22023: invalid value for parameter "dp.coverage": "sometimes"
 HINT: Choose one of: once, always.

--- An answer that follows from others has no such interval.
--@ budget.epsilon = 10

:by_state;
SET dp.coverage = always;
SET dp.half_width = 500;
:total;
 3000 | NULL | NULL
 NOTICE: answered from history, free; 9.9 of 10 remains for person
 HINT: No interval over all looks: the row itself was never answered, only other rows that determine it. SET dp.source = fresh buys an answer.
SET dp.source = fresh;
:total;
 3000 | 2361 | 3639

--- A hint counts the rows without such an interval.
--@ budget.epsilon = 10

SELECT sex, state, count(*) FROM person GROUP BY sex, state;
SET dp.coverage = always;
SET dp.source = history;
:total;
 NOTICE: answered from history, free; 9.9 of 10 remains for person
 HINT: No interval over all looks: the row itself was never answered, only other rows that determine it. SET dp.source = fresh buys an answer.
:by_state;
 NOTICE: answered from history, free; 9.9 of 10 remains for person
 HINT: No interval over all looks: none of the 5 different numbers in the result was ever answered, only other rows that determine them. SET dp.source = fresh buys an answer.
SET dp.source = fresh;
SELECT count(*) FROM person WHERE state = 'AL';
SET dp.source = history;
:by_state;
 NOTICE: answered from history, free; interval ±38 at 95 % over all looks; 9.8 of 10 remains for person
 HINT: No interval over all looks: 4 of the 5 different numbers in the result were never answered, only other rows that determine them. SET dp.source = fresh buys an answer.

--- What is exact stays exact, and each grouping set has answers of its own.

SET dp.coverage = always;
SELECT n, dp_interval_low(n), dp_interval_high(n) FROM (SELECT count(*) AS n FROM person WHERE false) AS t;
 0 | 0 | 0
 SPENT 0
SELECT n, dp_interval_high(n) - n FROM (SELECT state, count(*) AS n FROM person GROUP BY ROLLUP (state)) AS t;
 1000 | 76
 1000 | 76
 1000 | 76
 0 | 76
 0 | 76
 3000 | 76

--- They need noise that is added.
--@ count_range = 20

SET dp.coverage = always;
SET dp.mechanism = 'fair(n=20)';
:total;
 ERROR 0A000: dp.coverage = always needs additive noise, but dp.mechanism is fair(n=20)
 HINT: SET dp.coverage = once, or SET dp.mechanism = auto.
SET dp.mechanism = weakly_honest;
:total;
 ERROR 0A000: dp.coverage = always needs additive noise, but dp.mechanism is weakly_honest
 HINT: SET dp.coverage = once, or SET dp.mechanism = auto.
SET dp.mechanism = 'auto(properties=wh)';
:total;
 ERROR 0A000: dp.coverage = always needs additive noise, but dp.mechanism is auto(properties=wh)
 HINT: SET dp.coverage = once, or SET dp.mechanism = auto.
RESET dp.mechanism;
EXPLAIN :total;
 …
 Linear query on person: 1 row over no attribute, by laplace
 …

--- Other sessions' answers are looks, and so are those before a restart.
--@ noise = [4, -2, 7, 1, -5, 9, -12]

SET dp.coverage = always;
SET dp.source = fresh;
:by_state ORDER BY state;
 AK | 998 | -38 | 38
 AL | 1004 | -38 | 38
 WY | 1007 | -38 | 38
 other | 1 | -38 | 38
 NULL | -5 | -38 | 38
\connect bob
SET dp.coverage = always;
SET dp.source = fresh;
SET dp.epsilon = 0.6;
:by_state ORDER BY state;
 AK | 988 | -10 | 10
 AL | 1009 | -10 | 10
 WY | 1004 | -9 | 9
 other | -2 | -9 | 9
 NULL | 7 | -11 | 11
\connect analyst
SET dp.source = history;
:by_state ORDER BY state;
 AK | 988 | -10 | 10
 AL | 1009 | -10 | 10
 WY | 1004 | -9 | 9
 other | -2 | -9 | 9
 NULL | 7 | -11 | 11
\restart
SET dp.coverage = always;
SET dp.source = history;
:by_state ORDER BY state;
 AK | 988 | -10 | 10
 AL | 1009 | -10 | 10
 WY | 1004 | -9 | 9
 other | -2 | -9 | 9
 NULL | 7 | -11 | 11
