-- The guarantee that is reported is one that holds, whatever the policy was before.

--- A lowered budget does not undo what was spent.

SET dp.epsilon = 0.9;
SELECT count(*) FROM person WHERE age < 40;
\restart
--@ budget = { epsilon = 0.3 }
SELECT guarantee FROM dp.budget;
 … differs by a factor of at most exp(0.9)
-- Nor does a budget that was not spent give less than it says.
\restart
--@ budget = { epsilon = 0.95 }
SELECT guarantee FROM dp.budget;
 … differs by a factor of at most exp(0.95)
-- In the units of another budget it is ρ = 0.9²/2.
\restart
--@ budget = { epsilon = 0.3, delta = 1e-6 }
SELECT guarantee FROM dp.budget;
 … are 0.405-zCDP: but for 1e-06 … at most exp(4.63669)

--- Where invariants leave the total open, the guarantee is for n records, and the notice says so.
--@ invariants = [{ sql = "SELECT count(*) FROM person WHERE sex = 'F'" }]

SET dp.epsilon = 0.9;
SELECT count(*) FROM person WHERE age < 40;
\restart
--@ budget = { epsilon = 0.3 }
SELECT guarantee FROM dp.budget;
 for any two tables that agree on the invariants and differ in n records (one added or removed counts 1, one changed 2), the probability of any answers differs by a factor of at most exp(n 0.9); the invariants are exact and have no protection
SET dp.source = history;
SELECT count(*) FROM person WHERE age < 40;
 NOTICE: answered from history, free; interval ±3 at 95 %; 0 of 0.3 remains for person
 NOTICE: person: for any two tables that agree on the invariants and differ in n records (one added or removed counts 1, one changed 2), the probability of any answers differs by a factor of at most exp(n 0.9); the invariants are exact and have no protection

--- Its numbers are rounded up.
--@ budget = { epsilon = 2.000004 }

SELECT guarantee FROM dp.budget;
 … differs by a factor of at most exp(2.00001)
\restart
--@ budget = { epsilon = 2 }
SELECT guarantee FROM dp.budget;
 … differs by a factor of at most exp(2)
\restart
--@ budget = { epsilon = 123456.5 }
SELECT guarantee FROM dp.budget;
 … differs by a factor of at most exp(123457)
\restart
--@ budget = { rho = 0.2000004, delta = 1.000004e-6 }
SELECT guarantee FROM dp.budget;
 … are 0.200001-zCDP: but for 1.00001e-06 …
\restart
--@ budget = { epsilon = 2.000004, delta = 1e-6 }
SELECT guarantee FROM dp.budget;
 … at most exp(2.00001)

--- A refusal and a plan round costs up and the rest down.
--@ budget.epsilon = 1.23456789

SET dp.epsilon = 2.000004;
SELECT count(*) FROM person WHERE age < 40;
 ERROR 53400: the budget of table "person" does not allow this: it costs epsilon 2.00001, and 1.23456 remains for the records asked about most
 HINT: SET dp.epsilon to at most 1.23456789, which buys ±2 at 95 %, or ask about records with budget left; history does not determine this.
SET dp.epsilon = 0.11111111111;
EXPLAIN SELECT count(*) FROM person WHERE age < 40;
 …
 Cost: epsilon 0.1111111112 of person's budget; 1.23456789 remains, 1.123456778 after

--- The hint of a refusal is accepted.
--@ budget.epsilon = 1.1

SET dp.epsilon = 1;
SELECT count(*) FROM person WHERE age < 40;
SELECT count(*) FROM person WHERE age < 30;
 ERROR 53400: the budget of table "person" does not allow this: it costs epsilon 1, and 0.1 remains for the records asked about most
 HINT: SET dp.epsilon to at most 0.1, which buys ±30 at 95 %, or ask about records with budget left; history does not determine this.
SET dp.epsilon = 0.1;
SELECT count(*) FROM person WHERE age < 30;
 SPENT 1.1
