-- Noise that is drawn given that it agrees with what is exact: SET dp.mechanism = conditioned.
--@ neighbours = "replace"
--@ attributes = { state.values = ["AL", "AK", "WY"], age.range = [0, 79], sex.values = ["F", "M"] }
--@ budget.epsilon = 1000
--@ defaults.epsilon = 1
--@ invariants = [{ sql = "SELECT state, count(*) FROM person GROUP BY state" }]

\set groups SELECT state, age % 3 AS part, count(*) AS n, dp_stddev(n) AS deviation FROM person
    WHERE age IS NOT NULL GROUP BY 1, 2

--- Answers cost what independent noise costs, and others know them after a restart.
-- Three cells of a known total at b = 2: the variance of the conditional law is 3.162992.

SET dp.mechanism = conditioned;
EXPLAIN :groups;
 …
   aggregate 1: noise drawn together, standard deviation 1.77848 instead of 2.79918
 Noise on person conditioned on: SELECT state, count(*) FROM person GROUP BY state
 Cost: epsilon 1 of person's budget; 1000 remains, 999 after
SELECT state, sum(n), max(deviation) FROM (:groups) AS t GROUP BY state;
 AL | 1000 | 1.7784
 AK | 1000 | 1.7784
 WY | 1000 | 1.7784
 SPENT 1
SELECT mechanism FROM dp.history;
 conditioned
\restart
SET dp.source = history;
SELECT count(*) AS n, dp_stddev(n) FROM person WHERE state = 'AL' AND age % 3 <> 0;
 649 | 1.7784
SELECT count(*) AS n, dp_stddev(n) FROM person WHERE state = 'AL' AND age % 3 = 0;
 351 | 1.7784
-- What two cells of different states have in sum is independent.
SELECT count(*) AS n, dp_stddev(n) FROM person WHERE state IN ('AL', 'AK') AND age % 3 = 0;
 675 | 2.5151
 SPENT 1

--- It composes with other answers in one estimate that is better than each.

SET dp.source = fresh;
SET dp.mechanism = conditioned;
:groups;
SET dp.mechanism = laplace;
:groups;
SET dp.mechanism = conditioned;
:groups;
 SPENT 3
SET dp.source = history;
SELECT state, sum(n), max(deviation) < sqrt(3.162992 / 2) FROM (:groups) AS t GROUP BY state;
 AL | 1000 | true
 AK | 1000 | true
 WY | 1000 | true
SELECT count(*) FROM dp.history;
 3

--- ROLLUP adds up whether or not its levels are exact.
--@ invariants = [{ sql = "SELECT count(*) FROM person" }]

SET dp.mechanism = conditioned;
EXPLAIN SELECT state, sex, count(*) FROM person GROUP BY ROLLUP (state, sex);
 …
   aggregate 1: noise drawn together, standard deviation 2.25098 instead of 2.79918
 Noise on person conditioned on: SELECT count(*) FROM person
 Cost: epsilon 1 of person's budget; 1000 remains, 999 after
SELECT state, sex, count(*) FROM person GROUP BY ROLLUP (state, sex);
 AL | F | 500
 AL | M | 500
 AK | F | 500
 AK | M | 500
 WY | F | 500
 WY | M | 500
 AL | NULL | 1000
 AK | NULL | 1000
 WY | NULL | 1000
 NULL | NULL | 3000
 SPENT 1

--- What cannot be conditioned is refused and free.
--@ [[invariants]]
--@ sql = "SELECT state, count(*) FROM person GROUP BY state"
--@ [[invariants]]
--@ sql = "SELECT sex, count(*) FROM person GROUP BY sex"

SET dp.mechanism = conditioned;
SELECT state, sex, count(*) FROM person GROUP BY 1, 2;
 ERROR 0A000: conditioned cannot answer this about table "person": groups whose sums are exact overlap, and neither holds the other
 HINT: SET dp.mechanism = imaged, or auto: both agree with the invariants too.
EXPLAIN SELECT state, sex, count(*) FROM person GROUP BY 1, 2;
 ERROR 0A000: conditioned cannot answer this about table "person": groups whose sums are exact overlap, and neither holds the other
 HINT: SET dp.mechanism = imaged, or auto: both agree with the invariants too.
SELECT state, sum(age) FROM person GROUP BY 1;
 ERROR 0A000: conditioned cannot answer this about table "person": its rows are no counts of groups that are nested or disjoint
 HINT: SET dp.mechanism = imaged, or auto: both agree with the invariants too.
SET dp.coverage = always;
:groups;
 ERROR 0A000: dp.coverage = always needs independent noise on each row, but dp.mechanism is conditioned
 HINT: SET dp.coverage = once, or SET dp.mechanism = imaged.
RESET dp.coverage;
\restart
--@ inference_control = { min_half_width = 1 }
SET dp.mechanism = conditioned;
:groups;
 ERROR 0A000: conditioned cannot answer this about table "person": inference control allows independent noise only
 HINT: SET dp.mechanism = imaged, or auto: both agree with the invariants too.

--- Gaussian noise is for a budget of rho, and an epsilon and a delta go by way of rho.
-- σ² = 2/2ρ under replace, less the third that the totals take: √(100 · 2/3).
--@ budget = { rho = 1.0, delta = 1e-6 }
--@ defaults.rho = 0.01

SET dp.mechanism = conditioned;
SELECT state, sum(n), max(deviation) FROM (:groups) AS t GROUP BY state;
 AL | 1000 | 8.1649
 AK | 1000 | 8.1649
 WY | 1000 | 8.1649
 SPENT 0.01
SET dp.source = fresh;
SET dp.epsilon = 1;
SET dp.calibration = analytic;
:groups;
 ERROR 0A000: conditioned noise has an epsilon and a delta by way of rho only, but dp.calibration = analytic is for independent noise
 HINT: SET dp.calibration = zcdp.
SET dp.calibration = subspace;
EXPLAIN :groups;
 ERROR 0A000: conditioned noise has an epsilon and a delta by way of rho only, but dp.calibration = subspace is for independent noise
 HINT: SET dp.calibration = zcdp.
SET dp.calibration = zcdp;
:groups;
 SPENT 0.034356
SET dp.mechanism = knorm;
:groups;
 ERROR 0A000: knorm cannot answer this about table "person": it needs a budget of epsilon
 HINT: SET dp.mechanism = imaged, or auto: both agree with the invariants too.

--- Rows that add up to nothing have plain noise.

SET dp.mechanism = conditioned;
SELECT count(*) FROM person WHERE state = 'AL' AND sex = 'F';
SELECT mechanism FROM dp.history;
 laplace
-- A K-norm is for disjoint groups.
SET dp.mechanism = knorm;
SELECT sex, count(*), count(*) FILTER (WHERE age > 30) FROM person GROUP BY sex;
 ERROR 0A000: knorm cannot answer this about table "person": it needs counts of one set of disjoint groups
 HINT: SET dp.mechanism = imaged, or auto: both agree with the invariants too.

--- A plan is priced before any lock is taken, so that a client waits for its turn under none.
--@ only = "over the wire"

SET dp.mechanism = conditioned;
EXPLAIN :groups;
 …
 Cost: epsilon 1 of person's budget; 1000 remains, 999 after
