-- dp_stddev, dp_probability and dp.nonnegative. The probabilities are sums of the laws' definitions.

--- An answer has the probabilities of its noise.
-- At scale 10 and 190: P(−5.5 ≤ K ≤ 20) and P(K ≥ −5.5), in steps of whole numbers.

SELECT count(*) AS n, dp_stddev(n), dp_probability(n, 740, 765.5), dp_probability(n, NULL, 765.5) FROM person WHERE age < 20;
 760 | 14.1362 | 0.6475 | 0.7118
SELECT sum(age) AS n, dp_stddev(n), dp_probability(n, 7200, 7225.5), dp_probability(n, NULL, 7225.5) FROM person WHERE age < 20;
 7220 | 268.7002 | 0.0654 | 0.5142
SELECT 5 + sum(age) AS n, dp_stddev(n), dp_probability(n, 7205, 7230.5), dp_probability(n, NULL, 7230.5) FROM person WHERE age < 20;
 7225 | 268.7002 | 0.0654 | 0.5142

--- The units of a sum are those of its lattice.
-- 0.3 and 0.7 are tenths, whichever way they are written.

SELECT sum(age * 0.1) AS n, dp_stddev(n), dp_probability(n, 21.7, 25.3) FROM person WHERE age < 4;
 22.8 | 4.2424 | 0.4455
SELECT sum(age * 0.1) AS n, dp_probability(n, 217 / 10.0, '25.3') FROM person WHERE age < 4;
 22.8 | 0.4455
SELECT sum(age * 0.1) AS n, dp_probability(n, 21.61, 25.39) FROM person WHERE age < 4;
 22.8 | 0.4455
\bind [21.7, 25.3]
SELECT sum(age * 0.1) AS n, dp_probability(n, $1, $2) FROM person WHERE age < 4;
 22.8 | 0.4455

--- An interval is a claim of its confidence, and asking how sure costs nothing more.

SET dp.confidence = 0.8;
SELECT dp_interval_low(count(*)), dp_interval_high(count(*)) FROM person WHERE age < 9;
 326 | 358
SELECT dp_probability(count(*), 326, 358) FROM person WHERE age < 9;
 0.8081
SELECT dp_probability(count(*), 327, 357) FROM person WHERE age < 9;
 0.7880
 SPENT 0.1
SELECT age, count(*) FROM person GROUP BY age;
SELECT age, n, dp_stddev(n) FROM (SELECT age, count(*) AS n FROM person GROUP BY age) AS t
    WHERE age IN (3, 50, 90) AND dp_probability(n, 30, NULL) > 0.5 ORDER BY dp_stddev(n), age;
 3 | 38 | 13.4108
 50 | 37 | 14.1362
 NOTICE: answered from history, free; interval ±15.5 to ±16 at 80 %; 0.8 of 1 remains for person
 FREE

--- A refusal charges nothing.

SELECT dp_probability(count(*), 5, 3) FROM person;
 ERROR 22023: dp_probability takes the lower bound first: 5 is greater than 3
 HINT: dp_probability(answer, low, high)
SELECT dp_probability(count(*), age, 7) FROM person;
 ERROR 0A000: dp_probability takes numbers that are the same for every row
 HINT: Write constants or parameters: dp_probability(count(*), 0, 100), or NULL for no bound. Compare columns with dp_interval_low and dp_interval_high.
SELECT dp_probability(count(*), 0, 1/0) FROM person;
 ERROR 22012: division by zero
SELECT dp_probability(count(*), 'x', 3) FROM person;
 ERROR 22P02: invalid input syntax for type double precision: "x"
SELECT dp_probability(count(*), 0) FROM person;
 ERROR 0A000: dp_probability takes one aggregate or its alias, and two numbers

--- A summed row has the noise of its parts.
-- Three noises of scale 10: √(3 · 199.83); the total less 10 is exceeded with P(K₁ + K₂ + K₃ ≤ 10).

SET dp.source = fresh;
SELECT grouping(sex) AS g, count(*) AS n, dp_stddev(n), dp_probability(n, 2990, NULL) FROM person GROUP BY ROLLUP (sex);
 0 | 1500 | 14.1362 | 0.0
 0 | 1500 | 14.1362 | 0.0
 0 | 0 | 14.1362 | 0.0
 1 | 3000 | 24.4846 | 0.6862

--- What history does not know is NULL.

SET dp.source = history;
SELECT count(*) AS n, dp_stddev(n), dp_probability(n, 0, NULL) FROM person;
 NULL | NULL | NULL
SET dp.source = auto;
SELECT count(*) AS n, dp_stddev(n), dp_probability(n, 0, NULL) FROM person WHERE age < 0;
 0 | 0.0 | 1.0

--- Gaussian noise has its own law.
--@ budget = { rho = 10.0, delta = 1e-6 }
--@ defaults.rho = 0.005

SET dp.mechanism = gaussian;
SELECT count(*) AS n, dp_stddev(n), dp_probability(n, 2990, 3005) FROM person;
 3000 | 10.0 | 0.5621

--- Two answers to a question make a better one.
-- The mean of the two, with half the variance.
--@ noise = [9, 4]

SET dp.source = fresh;
SELECT count(*) AS n, dp_stddev(n) FROM person;
 3009 | 14.1362
SELECT count(*) AS n, dp_stddev(n) FROM person;
 3004 | 14.1362
SET dp.source = history;
SELECT count(*) AS n, dp_stddev(n), dp_probability(n, NULL, 3000) FROM person;
 3006 | 9.9958 | 0.2408

--- Counts are raised to 0 after all else is done, and add up.
--@ noise = [-9, 6, -3, 4]

\set raised SELECT sex, grouping(sex) AS g, count(*) AS n, dp_interval_low(n), dp_interval_high(n), dp_stddev(n), dp_probability(n, NULL, -1), count(*) - 5
    FROM person WHERE age = 90 GROUP BY ROLLUP (sex) ORDER BY g, sex

:raised;
 F | 0 | -9 | -39 | 21 | 14.1362 | 0.7865 | -14
 M | 0 | 6 | -24 | 36 | 14.1362 | 0.2606 | 1
 other | 0 | -3 | -33 | 27 | 14.1362 | 0.6110 | -8
 NULL | 1 | -6 | -56 | 44 | 24.4846 | 0.6015 | -11
:raised;
 F | 0 | -9 | -39 | 21 | 14.1362 | 0.7865 | -14
 M | 0 | 6 | -24 | 36 | 14.1362 | 0.2606 | 1
 other | 0 | -3 | -33 | 27 | 14.1362 | 0.6110 | -8
 NULL | 1 | -6 | -56 | 44 | 24.4846 | 0.6015 | -11
SET dp.nonnegative = on;
:raised;
 F | 0 | 0 | 0 | 21 | 14.1362 | 0.7865 | -5
 M | 0 | 3 | 0 | 36 | 14.1362 | 0.2606 | -2
 other | 0 | 0 | 0 | 27 | 14.1362 | 0.6110 | -5
 NULL | 1 | 3 | 0 | 44 | 24.4846 | 0.6015 | -2
RESET dp.nonnegative;
:raised;
 F | 0 | -9 | -39 | 21 | 14.1362 | 0.7865 | -14
 M | 0 | 6 | -24 | 36 | 14.1362 | 0.2606 | 1
 other | 0 | -3 | -33 | 27 | 14.1362 | 0.6110 | -8
 NULL | 1 | -6 | -56 | 44 | 24.4846 | 0.6015 | -11
 SPENT 0.1

--- What may be negative is not raised.
-- A difference counts where it leaves records of one kind without others.
--@ defaults = { epsilon = 0.1, confidence = 0.999 }
--@ noise = [-2000]

SET dp.nonnegative = on;
SELECT count(*) FILTER (WHERE age > 85) - count(*) FILTER (WHERE age < 3) AS n, dp_interval_low(n) FROM person WHERE sex = 'F';
 -2076 | -2145
SELECT count(*) - count(*) FILTER (WHERE age <= 85) AS n, dp_interval_low(n) FROM person WHERE sex = 'F';
 0 | 0
SELECT sum(age - 50) AS n, dp_interval_low(n) FROM person WHERE sex = 'F';
 -18900 | -22354
SELECT sum(age) FILTER (WHERE age > 90) AS n, dp_interval_low(n) FROM person WHERE sex = 'F';
 0 | 0

--- A policy may raise counts for every session.
--@ defaults = { epsilon = 0.1, nonnegative = true }
--@ noise = [-50]

SELECT count(*) FROM person WHERE age = 3;
 0
SHOW dp.nonnegative;
 on
SET dp.nonnegative = off;
SELECT count(*) FROM person WHERE age = 3;
 -12
RESET dp.nonnegative;
SHOW dp.nonnegative;
 on
