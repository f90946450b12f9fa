-- Inference control: what is refused, what stays possible, and that a refusal is free.
--@ budget.epsilon = 1000
--@ inference_control = { min_half_width = 5 }

\set whole SELECT count(*) AS n, dp_interval_low(n), dp_interval_high(n) FROM person
\set women SELECT count(*) AS n, dp_interval_low(n), dp_interval_high(n) FROM person WHERE sex = 'F'

--- What is allowed is said, and is free to find out.

SET dp.half_width = 4;
:women;
 ERROR 42501: the inference control of table "person" does not allow this: a count would be known to less than ±5 at 95 %
 DETAIL: Earlier answers count too, and so do the differences of two groups.
 HINT: SET dp.half_width to at least 5, at 95 %, or SET dp.source = history for what is known already.
EXPLAIN :women;
 …
 It would be refused: the inference control of table "person" does not allow this: a count would be known to less than ±5 at 95 %
 …
SET dp.half_width = 5;
EXPLAIN :women;
 …
 Cost: epsilon 0.53817… of person's budget; 1000 remains, 999.4618… after
:women;
 1500 | 1495 | 1505
 SPENT 0.538174
:women;
 1500 | 1495 | 1505
 FREE

--- A cost is looked at as well.
--@ inference_control.min_half_width = 5
--@ inference_control.confidence = 0.9

SET dp.epsilon = 2;
:women;
 ERROR 42501: … a count would be known to less than ±5 at 90 %
 HINT: SET dp.half_width to at least 6, at 95 %, …
SET dp.epsilon = 0.3;
:women;
 SPENT 0.3

--- Asking again does not average it out.

SET dp.half_width = 6;
:women;
 1500 | 1494 | 1506
SET dp.source = fresh;
:women;
 ERROR 42501: … a count would be known to less than ±5 at 95 %
 HINT: SET dp.half_width to at least 8, at 95 %, …

--- An earlier answer can be topped up to the limit.

SET dp.half_width = 8;
:women;
 SPENT 0.350640
SET dp.half_width = 4;
:women;
 ERROR 42501: … a count would be known to less than ±5 at 95 %
 HINT: SET dp.half_width to at least 5.01, at 95 %, …

--- Large groups pass, but not what is between them.
--@ inference_control.min_half_width = 5
--@ inference_control.min_count = 1000

SET dp.half_width = 30;
:whole;
:whole WHERE age <> 3;
SET dp.half_width = 2;
:whole;
 3000 | 2998 | 3002
:whole WHERE age <> 3;
 ERROR 42501: … a count of less than 1,000 would be known to less than ±5 at 95 %
 HINT: SET dp.half_width to at least 4.57, at 95 %, …
:whole WHERE age = 3;
 ERROR 42501: … a count of less than 1,000 would be known to less than ±5 at 95 %
 HINT: SET dp.half_width to at least 5, at 95 %, …

--- Nobody is large before anything is known.
--@ inference_control.min_half_width = 5
--@ inference_control.min_count = 1

SET dp.half_width = 2;
:whole;
 ERROR 42501: … a count of less than 1 would be known to less than ±5 at 95 %
 HINT: SET dp.half_width to at least 5, at 95 %, …

--- A sum counts in what one record moves it.

SET dp.half_width = 9;
SELECT sum(CASE WHEN sex = 'F' THEN 2 ELSE 0 END) FROM person;
 ERROR 42501: … a count would be known to less than ±5 at 95 %
 HINT: SET dp.half_width to at least 10, at 95 %, …
SET dp.half_width = 10;
SELECT sum(CASE WHEN sex = 'F' THEN 2 ELSE 0 END) FROM person;
 3000
-- Groups of nobody are no matter.
SET dp.half_width = 4;
SELECT sex, count(*) FILTER (WHERE sex <> 'M') FROM person WHERE age < 9 GROUP BY sex;
 ERROR 42501: … a count would be known to less than ±5 at 95 %
 HINT: SET dp.half_width to at least 5, at 95 %, …

--- A release in rho.
--@ budget = { rho = 100, delta = 1e-9 }
--@ defaults.rho = 0.005

:women;
SET dp.rho = 1;
:women;
 ERROR 42501: … a count would be known to less than ±5 at 95 %
 HINT: SET dp.half_width to at least 5.01, at 95 %, …

--- Mechanisms with a public range have no part.
--@ count_range = 20

SET dp.mechanism = 'fair(n=20)';
:women;
 ERROR 0A000: fair(n=20) cannot answer this about table "person": it is not among the mechanisms of its policy
 HINT: SET dp.mechanism to one of: laplace, geometric, or auto.
SET dp.mechanism = auto;
EXPLAIN :women;
 …
 Linear query on person: 1 row over sex, by laplace
 …
\restart
--@ mechanisms = ["laplace", "fair"]
 ERROR F0000: the policy has a mistake
 DETAIL: tables.person.mechanisms: fair is a mechanism with a public range, whose answers' precision is not known beforehand; inference_control needs additive noise

--- The limit is the least that is sold.
-- P(|K| > 4) = 2a⁵/(1 + a) with a = e^−ε is 0.0487 at 0.66, so that ±4 holds, and 0.0509 at 0.65.

SET dp.epsilon = 0.66;
:women;
 ERROR 42501: … known to less than ±5 at 95 %
SET dp.epsilon = 0.65;
:women;
 1500 | 1495 | 1505

--- A dashboard is topped up until the limit.

SET dp.half_width = 60;
SELECT sex, count(*) FROM person GROUP BY sex;
 SPENT 0.049511
:whole;
SET dp.half_width = 20;
SELECT sex, count(*) FROM person GROUP BY sex;
 SPENT 0.220910
SET dp.half_width = 4;
SELECT sex, count(*) FROM person GROUP BY sex;
 ERROR 42501: … a count would be known to less than ±5 at 95 %
 HINT: SET dp.half_width to at least 5.01, at 95 %, …
SET dp.source = history;
SELECT sex, count(*) FROM person GROUP BY sex;
 F | 1500
 M | 1500
 other | 0
