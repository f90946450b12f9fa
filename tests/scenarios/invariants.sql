-- Counts that a policy publishes exactly: exact and free, with all other answers in agreement.
--@ neighbours = "replace"
--@ invariants = [{ sql = "SELECT state, count(*) FROM person GROUP BY state" }]

\set by_state SELECT state, count(*) FROM person GROUP BY state

--- What follows from exact counts is exact and free.

:by_state;
 AL | 1000
 AK | 1000
 WY | 1000
 other | 0
 NULL | 0
 NOTICE: exact, from public facts; free; interval ±0 at 95 %; 1 of 1 remains for person
 NOTICE: person: for any two tables that agree on the invariants and differ in one record's value, the probability of any answers differs by a factor of at most exp(1); the invariants are exact and have no protection
EXPLAIN :by_state;
 …
   exact, from public facts: 5 rows
 Cost: nothing
 …
SET dp.source = history;
SELECT count(*) FROM person WHERE state IN ('AL', 'WY');
 2000
SET dp.source = fresh;
SELECT sum(CASE WHEN state = 'AL' THEN 2 ELSE -1 END) FROM person;
 0
SELECT count(*) FILTER (WHERE state = 'AK') * 3 - count(*) FROM person;
 0
SELECT count(*), count(*) FILTER (WHERE state = 'AL') FROM person;
 3000 | 1000
SELECT count(*) AS n, dp_interval_low(n), dp_interval_high(n), dp_stddev(n) FROM person WHERE state = 'AL';
 1000 | 1000 | 1000 | 0.0
SET dp.mechanism = 'truncated_geometric(n=50)';
SELECT count(*) FROM person WHERE state IN ('AL', 'WY');
 2000
SELECT * FROM dp.history;
 (no rows)
-- What does not follow is unknown.
SET dp.source = history;
SELECT count(*) FROM person WHERE state = 'AL' AND sex = 'F';
 NULL
 SPENT 0
RESET ALL;
SELECT count(*) AS n, dp_interval_high(n) - n FROM person WHERE state = 'AL' AND sex = 'F';
 500 | 30
 SPENT 0.1

--- A count of nobody gives nothing away.
--@ invariants = [{ sql = "SELECT sum(0) FROM person" }, { sql = "SELECT count(*) FROM person WHERE state = 'TX'" }]

SELECT counted, value FROM dp.invariants;
 all records | 3000.0
 no record | 0.0
 no record | 0.0
SELECT sum(0) FROM person;
 0
SELECT count(*) FROM person WHERE state = 'TX';
 0
SELECT count(*) FROM person WHERE age < 30;
 1140
 SPENT 0.1

--- Nearly is not exact.
-- To eleven digits the second row is the first one, divided by 10¹².
--@ invariants = [{ sql = "SELECT sum(CASE state WHEN 'AL' THEN 1000000000000 WHEN 'AK' THEN 1000000000001 ELSE 0 END) FROM person" }]

SET dp.source = history;
SELECT count(*) FROM person WHERE state IN ('AL', 'AK');
 NULL
SELECT sum(CASE state WHEN 'AL' THEN 1000000000000 WHEN 'AK' THEN 1000000000001 ELSE 0 END) FROM person;
 2000000000001000

--- Two margins, and what lies between.
--@ noise = [13, -8, 21, 5, -17]
--@ [[invariants]]
--@ sql = "SELECT state, count(*) FROM person GROUP BY state"
--@ [[invariants]]
--@ sql = "SELECT sex, count(*) FROM person GROUP BY sex"

SELECT sex, count(*) FROM person GROUP BY sex;
 F | 1500
 M | 1500
 other | 0
SELECT sum(CASE WHEN state = 'AL' THEN 1 ELSE 0 END + CASE WHEN sex = 'F' THEN 1 ELSE 0 END) FROM person;
 2500
SET dp.source = history;
SELECT count(*) FROM person WHERE state = 'AL' AND sex = 'F';
 NULL
 SPENT 0
SET dp.source = auto;
SELECT state, sum(n) FROM (SELECT state, sex, count(*) AS n FROM person GROUP BY 1, 2) AS t GROUP BY state;
 AL | 1000
 AK | 1000
 WY | 1000
 other | 0
 NULL | 0
SELECT sex, sum(n) FROM (SELECT state, sex, count(*) AS n FROM person GROUP BY 1, 2) AS t GROUP BY sex;
 F | 1500
 M | 1500
 other | 0
 FREE

--- Invariants are listed with their values, and the first answer names the guarantee.
--@ invariants = [{ sql = "SELECT count(*) FROM person WHERE sex = 'F'" }]

SELECT * FROM dp.invariants;
 person | SELECT count(*) FROM person | all records | 3000.0
 person | SELECT count(*) FROM person WHERE sex = 'F' | sex = 'F' | 1500.0
SELECT count(*) FROM person WHERE age < 40;
 NOTICE: cost epsilon 0.1; interval ±30 at 95 %; 0.9 of 1 remains for person
 NOTICE: person: for any two tables that agree on the invariants and differ in one record's value, the probability of any answers differs by a factor of at most exp(1); the invariants are exact and have no protection
SELECT count(*) FROM person WHERE age < 40;
 NOTICE: answered from history, free; interval ±30 at 95 %; 0.9 of 1 remains for person
SELECT guarantee FROM dp.budget;
 for any two tables that agree on the invariants and differ in one record's value, the probability of any answers differs by a factor of at most exp(1); the invariants are exact and have no protection

--- Moved records are counted where the total is open.
--@ neighbours = "add_remove"
--@ invariants = [{ sql = "SELECT count(*) FROM person WHERE sex = 'F'" }]

SELECT count(*) FROM person WHERE sex = 'F';
 1500
 SPENT 0
SELECT guarantee FROM dp.budget;
 for any two tables that agree on the invariants and differ in n records (one added or removed counts 1, one changed 2), the probability of any answers differs by a factor of at most exp(n 1); the invariants are exact and have no protection
SET dp.source = history;
SELECT count(*) FROM person;
 NULL

--- A known total takes the relation that keeps it.
--@ neighbours = "add_remove"

\connect analyst
 ERROR F0000: the policy has a mistake
 DETAIL: tables.person.invariants: expected neighbours = "replace": they determine the number of records, and tables that are neighbours under "add_remove" never have the same number

--- Everything exact is refused.
--@ attributes.sex = { values = ["F", "M"], other = true }
--@ invariants = [{ sql = "SELECT sex, count(*) FROM person GROUP BY sex" }]

\connect analyst
 ERROR F0000: the policy has a mistake
 DETAIL: tables.person.invariants: expected fewer: they determine all 3 cells, so that everything would be exact and nothing protected

--- Every mistake is reported at once.
--@ invariants = [{ sql = "SELECT avg(age) FROM person" }, { sql = "SELECT count(*) FROM nowhere" }]

\connect analyst
 ERROR F0000: the policy has 2 mistakes
 DETAIL: tables.person.invariants[0].sql = 'SELECT avg(age) FROM person', character 8: an invariant must be linear, such as COUNT or SUM; Write one SELECT of group keys and COUNT, SUM or sums and differences of them. tables.person.invariants[1].sql = 'SELECT count(*) FROM nowhere', character 22: relation "nowhere" does not exist; SELECT * FROM dp.attributes lists the tables and attributes.

--- What was refused was not published.
--@ records = "SELECT ['AL', 'AK', 'WY'][1 + i % 3] AS state, CASE WHEN i < 3000 THEN i % 80 ELSE 99 END AS age, 'F' AS sex FROM range(3003) t(i)"
--@ invariants = [{ sql = "SELECT state, count(*) FROM person WHERE age > 90 GROUP BY state" }]

\connect analyst
 ERROR F0000: the policy has a mistake
 DETAIL: tables.person.invariants: 3 counts of fewer than 10 records would be exact; expected invariants that do not determine them, or in one of these acknowledge = ["state = 'AL' AND age BETWEEN 91 AND 99", "state = 'AK' AND age BETWEEN 91 AND 99", "state = 'WY' AND age BETWEEN 91 AND 99"]
\restart
--@ invariants = [{ sql = "SELECT state, count(*) FROM person WHERE age > 90 GROUP BY state", acknowledge = ["state = 'AK'"] }]
 ERROR F0000: the policy has 2 mistakes
 DETAIL: … tables.person.invariants: acknowledge names no exact count: state = 'AK'; expected names as tallyveil check writes them
\restart
--@ invariants = []
SELECT count(*) FROM person;
 3003
SELECT * FROM dp.history;
 (no rows)

--- An invariant may come later and stays.
--@ invariants = []
--@ noise = [20, -9, 4]

SELECT sex, count(*) FROM person WHERE state = 'AL' GROUP BY sex;
 F | 520
 M | 491
 other | 4
\restart
--@ invariants = [{ sql = "SELECT state, count(*) FROM person GROUP BY state" }]
SELECT state, count(*) FROM person WHERE state = 'AL' GROUP BY state;
 AL | 1000
SELECT sex, count(*) FROM person WHERE state = 'AL' GROUP BY sex;
 F | 515
 M | 486
 other | -1
 FREE
\restart
--@ invariants = []
 ERROR 55000: the policy no longer declares an invariant of table "person" that was published
 DETAIL: What was published is known for good, and cannot be taken back: SELECT state, count(*) FROM person GROUP BY state
 HINT: Put it back: [[tables.person.invariants]] with sql = 'SELECT state, count(*) FROM person GROUP BY state', or with the from_public that it came from.
\restart
--@ invariants = [{ sql = "SELECT state, sex, count(*) FROM person GROUP BY state, sex" }]
SELECT count(*) FROM person WHERE state = 'AL';
 1000
 FREE

--- A cell of a known group costs half and says why.
-- The noise is that of the row as it is asked, and so is its interval.
--@ neighbours = "add_remove"
--@ invariants = [{ sql = "SELECT sex, count(*) FROM person WHERE sex <> 'other' GROUP BY sex" }]

EXPLAIN SELECT count(*) FROM person WHERE sex = 'F' AND age < 40;
 …
   aggregate 1: 1 row, 40 non-zero coefficients, sensitivity 1 (add_remove), scale 10, interval ±30 at 95 %
 …
   aggregate 1: charged as a translate by exact counts, sensitivity 0.5
 Saved by invariants of person: epsilon 0.05, by SELECT sex, count(*) FROM person WHERE sex <> 'other' GROUP BY sex
 Cost: epsilon 0.05 of person's budget; 1 remains, 0.95 after
SELECT count(*) AS n, dp_stddev(n) FROM person WHERE sex = 'F' AND age < 40;
 760 | 14.13624479
 SPENT 0.05
\restart
SELECT count(*) AS n, dp_stddev(n) FROM person WHERE sex = 'F' AND age < 40;
 SPENT 0.05
-- All groups of a known total cost no less, nor do cells of a group that nothing is known of.
EXPLAIN SELECT age, count(*) FROM person WHERE sex = 'M' GROUP BY age;
 …
   aggregate 1: 101 rows, 101 non-zero coefficients, sensitivity 1 (add_remove), scale 10, interval ±30 at 95 %
 …
 Cost: epsilon 0.1 of person's budget; 0.95 remains, 0.9 after
EXPLAIN SELECT count(*) FROM person WHERE sex = 'other' AND age < 30;
 …
   aggregate 1: 1 row, 30 non-zero coefficients, sensitivity 1 (add_remove), scale 10, interval ±30 at 95 %
 …
 Cost: epsilon 0.1 of person's budget; 0.95 remains, 0.9 after
SET dp.mechanism = projected;
SELECT count(*) FROM person WHERE sex = 'M' AND age < 40;
 SPENT 0.1
SET dp.mechanism = extended;
SELECT count(*) FROM person WHERE sex = 'M' AND age < 50;
 ERROR 0A000: extended cannot answer this about table "person": its noise is gaussian, which needs a delta, but the budget is of epsilon alone
 HINT: SET dp.mechanism to one of: laplace, geometric, or auto.

--- Cells of two margins cost half of an exchange.
--@ [[invariants]]
--@ sql = "SELECT state, count(*) FROM person GROUP BY state"
--@ [[invariants]]
--@ sql = "SELECT sex, count(*) FROM person GROUP BY sex"

EXPLAIN SELECT count(*) FROM person WHERE state = 'AL' AND sex = 'F';
 …
   aggregate 1: 1 row, 1 non-zero coefficient, sensitivity 1 (replace), scale 10, interval ±30 at 95 %
 …
   aggregate 1: charged as a translate by exact counts, sensitivity 0.5
 Saved by invariants of person: epsilon 0.05, by SELECT state, count(*) FROM person GROUP BY state; SELECT sex, count(*) FROM person GROUP BY sex
 Cost: epsilon 0.05 of person's budget; 1 remains, 0.95 after
SELECT count(*) FROM person WHERE state = 'AL' AND sex = 'F';
 SPENT 0.05

--- Groups cost less in rho.
-- Of 101 groups of a known total each is 1/101 less, as the smallest ball around them is.
--@ neighbours = "add_remove"
--@ budget = { rho = 1.0, delta = 1e-6 }
--@ defaults.rho = 0.01
--@ [[invariants]]
--@ sql = "SELECT sex, count(*) FROM person WHERE sex <> 'other' GROUP BY sex"

SELECT age, count(*) FROM person WHERE sex = 'F' GROUP BY age;
 SPENT 0.009901
SET dp.source = fresh;
SET dp.mechanism = projected;
SELECT sum(n) FROM (SELECT age, count(*) AS n FROM person WHERE sex = 'M' GROUP BY age) AS t;
 1500
 SPENT 0.01
SET dp.mechanism = extended;
EXPLAIN SELECT age, count(*) FROM person WHERE sex = 'M' GROUP BY age;
 …
   aggregate 1: charged as a translate by exact counts, sensitivity 0.99503…
 …
SELECT sum(n) FROM (SELECT age, count(*) AS n FROM person WHERE sex = 'M' GROUP BY age) AS t;
 1500
 SPENT 0.019901

--- Many cells of a group cost what they do without translates.
-- Each alone costs every cell of the group half. Before one is refused, those before it are charged as they were asked.
--@ neighbours = "add_remove"
--@ budget.epsilon = 0.15
--@ [[invariants]]
--@ sql = "SELECT sex, count(*) FROM person WHERE sex <> 'other' GROUP BY sex"

SELECT count(*) FROM person WHERE sex = 'F' AND age = 0;
 SPENT 0.05
SELECT count(*) FROM person WHERE sex = 'F' AND age = 1;
 SPENT 0.1
SELECT count(*) FROM person WHERE sex = 'F' AND age = 2;
 SPENT 0.15
SELECT count(*) FROM person WHERE sex = 'F' AND age = 3;
 SPENT 0.1
SET dp.source = fresh;
SELECT count(*) FROM person WHERE sex = 'F' AND age = 3;
 SPENT 0.15
SELECT count(*) FROM person WHERE sex = 'F' AND age = 3;
 ERROR 53400: the budget of table "person" does not allow this: it costs epsilon 0.1, and 0 remains for the records asked about most
 HINT: SET dp.source = history for what is known already, ±20.5 at 95 %.
SELECT spent FROM dp.history;
 0.05
 0.1
 0.15
 0.1
 0.15
\restart
SELECT spent FROM dp.budget;
 0.15
SELECT spent FROM dp.history;
 0.05
 0.1
 0.15
 0.1
 0.15

--- Giving up translates is held to all shares.
-- What one analyst bought as translates is not charged as it was asked if that takes more than the analyst has.
--@ neighbours = "add_remove"
--@ budget.epsilon = 0.2
--@ analysts = { ann.budget.epsilon = 0.11, bob.budget.epsilon = 0.11 }
--@ [[invariants]]
--@ sql = "SELECT sex, count(*) FROM person WHERE sex <> 'other' GROUP BY sex"

\connect ann
SELECT count(*) FROM person WHERE sex = 'F' AND age < 30;
 SPENT 0.05
SELECT count(*) FROM person WHERE sex = 'F' AND age < 31;
 SPENT 0.1
\connect bob
SELECT count(*) FROM person WHERE sex = 'F' AND age = 40;
SELECT count(*) FROM person WHERE sex = 'F' AND age = 41;
 SPENT 0.2
SELECT count(*) FROM person WHERE sex = 'F' AND age = 42;
 ERROR 53400: the budget of table "person" does not allow this: it costs epsilon 0.1, and 0 remains for the records asked about most
 HINT: Ask about records with budget left; history does not determine this.

--- Without exact counts there is nothing to project on.
--@ invariants = []
--@ neighbours = "add_remove"
--@ budget = { rho = 1.0, delta = 1e-6 }
--@ defaults.rho = 0.01

SET dp.mechanism = projected;
SELECT count(*) FROM person WHERE age < 40;
 ERROR 0A000: projected needs exact counts, and table "person" has none
 HINT: SET dp.mechanism = auto.
SET dp.mechanism = extended;
SELECT count(*) FROM person WHERE age < 40;
 ERROR 0A000: extended needs exact counts, and table "person" has none
 HINT: SET dp.mechanism = auto.
SET dp.mechanism = optimal;
SELECT count(*) FROM person WHERE age < 40;
 ERROR 0A000: optimal needs exact counts, and table "person" has none
 HINT: SET dp.mechanism = auto.
SET dp.mechanism = imaged;
SELECT count(*) FROM person WHERE age < 40;
 ERROR 0A000: imaged needs exact counts, and table "person" has none
 HINT: SET dp.mechanism = auto.
SET dp.mechanism = conditioned;
SELECT count(*) FROM person WHERE age < 40;
 ERROR 0A000: conditioned needs exact counts, and table "person" has none
 HINT: SET dp.mechanism = auto.
SET dp.mechanism = knorm;
SELECT count(*) FROM person WHERE age < 40;
 ERROR 0A000: knorm needs exact counts, and table "person" has none
 HINT: SET dp.mechanism = auto.

--- Rows that nothing ties are not said to miss sums.

SELECT state, count(*) FROM person WHERE sex = 'F' GROUP BY 1;
 NOTICE: cost …
 HINT: none
 NOTICE: person: …
SELECT state, count(*) FROM person WHERE sex = 'F' GROUP BY ROLLUP (1);
 NOTICE: …
 HINT: none
SELECT state, count(*) FROM person WHERE age < 30 GROUP BY 1;
 NOTICE: …
 HINT: none
