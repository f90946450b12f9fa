-- auto(properties=…): the flowchart of COUNT Fig. 5 chooses, and what it chose is charged, said and kept.

\set one_age SELECT count(*) AS n FROM person WHERE age = 7
\set used SELECT mechanism FROM dp.history

--- What it leads to is recorded, and free by its own name.
-- α = e^−0.1 = 0.905 and n = 10 < 2α/(1 − α) = 19.0.

SET dp.mechanism = 'auto(n=10, properties=WH)';
EXPLAIN :one_age;
 …
 …by weakly_honest(n=10)…
 …
:one_age;
 10
 NOTICE: cost epsilon 0.1; interval of width 10 at 95 %; by weakly_honest(n=10); such answers are biased and need not add up; 0.9 of 1 remains for person
SET dp.mechanism = 'weakly_honest(n=10)';
:one_age;
 10
 NOTICE: answered from history…
:used;
 weakly_honest(n=10)
 SPENT 0.1

--- Fairness leads to the fair mechanism, and symmetry to the geometric one.
--@ mechanisms = ["fair", "truncated_geometric", "laplace"]

SET dp.mechanism = 'auto(n=10, properties=f)';
:one_age;
SET dp.mechanism = 'auto(n=10, properties=rm+s)';
:one_age;
:used;
 fair(n=10)
 truncated_geometric(n=10)

--- Monotone columns need a mechanism that is designed, unless α is at most 1/2.

SET dp.mechanism = 'auto(n=10, properties=cm)';
:one_age;
SET dp.epsilon = 0.5;
SET dp.mechanism = 'auto(n=10, properties=wh)';
:one_age;
SET dp.epsilon = 0.7;
SET dp.mechanism = 'auto(n=10, properties=cm)';
SELECT count(*) AS n FROM person WHERE age = 8;
:used;
 designed(n=10, properties=ch+cm+rh+rm+s+wh)
 truncated_geometric(n=10)
 truncated_geometric(n=10)

--- The range is the policy's where it says so.
--@ defaults = { epsilon = 0.1, mechanism = "auto(properties=wh)" }
--@ count_range = 50

SHOW dp.mechanism;
 auto(properties=wh)
:one_age;
 38
 NOTICE: cost epsilon 0.1; interval of width 34 at 95 %; by truncated_geometric(n=50), n from the policy's count_range; such answers are biased and need not add up; 0.9 of 1 remains for person

--- What is no question to the flowchart.

SET dp.mechanism = 'auto()';
 ERROR 22023: auto with a public range needs properties
 HINT: Write auto(properties=wh+cm), say, or auto alone.
SET dp.mechanism = 'auto(n=5)';
 ERROR 22023: auto with a public range needs properties
 HINT: Write auto(properties=wh+cm), say, or auto alone.
SET dp.mechanism = 'auto(properties=xx)';
 ERROR 22023: there is no property "XX"
 HINT: The properties are RH, RM, CH, CM, F, WH, S.
SET dp.mechanism = 'auto(properties=wh, objective=l1)';
 ERROR 22023: auto has no parameter objective
 HINT: It takes n and properties; designed takes an objective, too.
SET dp.mechanism = 'auto(n=501, properties=wh)';
 ERROR 22023: the largest possible count must be an integer from 1 to 500, not 501
 HINT: For a larger range, use a mechanism without a range, such as laplace: the ends hardly matter.
SET dp.mechanism = 'auto(n=0, properties=wh)';
 ERROR 22023: n=0: expected a whole number of at least 1
SET dp.mechanism = 'auto(WH, CM)';
 ERROR 22023: "auto(WH, CM)" is not a mechanism
 HINT: Write a name, such as laplace, or a name with parameters, such as fair(n=20).
SHOW dp.mechanism;
 auto

--- Nor is it in a policy.
--@ defaults = { epsilon = 0.1, mechanism = "auto(n=5)" }

\connect analyst
 ERROR F0000: the policy has a mistake
 DETAIL: defaults.mechanism: auto with a public range needs properties; Write auto(properties=wh+cm), say, or auto alone.

--- What it cannot answer costs nothing.
--@ defaults.epsilon = 0.01

SET dp.mechanism = 'auto(properties=wh)';
:one_age;
 ERROR 0A000: auto(properties=wh) needs a public range 0..n of every count asked for, but the policy declares none for these counts of table "person"
 HINT: SET dp.mechanism = 'auto(n=…, properties=wh)', where n is an upper bound that you know, or auto.
SET dp.mechanism = 'auto(n=9, properties=wh)';
SELECT sum(age) FROM person WHERE age = 7;
 ERROR 0A000: auto(n=9, properties=wh) cannot answer this about table "person": it answers counts only, in which each record counts 0 or 1
 HINT: SET dp.mechanism to one of: laplace, geometric, or auto.
SET dp.half_width = 5;
:one_age;
 ERROR 0A000: dp.half_width is set, but the intervals of a mechanism with a public range have no half-width in common: how far one extends to each side depends on the answer
 HINT: SET dp.epsilon instead, or SET dp.mechanism = auto.
RESET dp.half_width;
SET dp.mechanism = 'auto(n=151, properties=wh)';
:one_age;
 ERROR 54001: counts up to 151 are too many to design a mechanism for
 HINT: Ask for property F: the explicit fair mechanism has all properties and needs no solver.
\restart
--@ mechanisms = ["laplace"]
SET dp.mechanism = 'auto(n=9, properties=wh)';
:one_age;
 ERROR 0A000: weakly_honest(n=9) cannot answer this about table "person": it is not among the mechanisms of its policy
 HINT: SET dp.mechanism to one of: laplace, or auto.
