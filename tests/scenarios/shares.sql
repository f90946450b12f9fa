-- Analysts with shares of one budget: a budget of 0.4, of which two have 0.2 and 0.3.
--@ budget.epsilon = 0.4
--@ analysts = { alice.budget.epsilon = 0.2, bob.budget.epsilon = 0.3 }

\set women SELECT count(*) FROM person WHERE sex = 'F'
\set balances SELECT analyst, budget, spent, remaining FROM dp.budget

--- Each spends a share, and all of them the budget.

\connect alice
SET dp.source = fresh;
:women;
:women;
:women;
 ERROR 53400: the share of analyst "alice" in the budget of table "person" does not allow this: it costs epsilon 0.1, and 0 remains for the records asked about most by this analyst
 HINT: SET dp.source = history for what is known already, ±20.5 at 95 %.
\connect bob
SET dp.source = fresh;
:women;
:women;
 SPENT 0.4
:women;
 ERROR 53400: the budget of table "person" does not allow this: it costs epsilon 0.1, and 0 remains for the records asked about most
 HINT: SET dp.source = history for what is known already, ±14.25 at 95 %.
:balances;
 NULL | 0.4 | 0.4 | 0.0
 bob | 0.3 | 0.2 | 0.1
\connect alice
:balances;
 NULL | 0.4 | 0.4 | 0.0
 alice | 0.2 | 0.2 | 0.0

--- What one bought is free for all.
--@ noise = [5]

\connect carol
:women;
 ERROR 53400: analyst "carol" has no share of the budget of table "person"
 HINT: Ask the custodian: the policy says who may spend, and how much.
\connect alice
:women;
 1505
 NOTICE: cost epsilon 0.1; interval ±30 at 95 %; 0.3 of 0.4 remains for person; 0.1 of 0.2 of it for alice
\connect carol
:women;
 1505
 NOTICE: answered from history, free; interval ±30 at 95 %; 0.3 of 0.4 remains for person; nothing of it for carol
:balances;
 NULL | 0.4 | 0.1 | 0.3
 carol | 0.0 | NULL | 0.0
-- What depends on no record is exact and free, for her too.
SELECT count(*) FROM person WHERE age < 0;
 0
 FREE

--- EXPLAIN tells of both, and shares outlive the server.

\connect alice
:women;
EXPLAIN SELECT count(*) FROM person;
 …
 Cost: epsilon 0.1 of alice's share of person's budget; 0.1 remains, 0 after
 Cost: epsilon 0.1 of person's budget; 0.3 remains, 0.2 after
\connect bob
SET dp.epsilon = 0.35;
EXPLAIN SELECT count(*) FROM person;
 …
 Cost: epsilon 0.35 of bob's share of person's budget; 0.3 remains: it would be refused
 Cost: epsilon 0.35 of person's budget; 0.3 remains: it would be refused
\connect carol
EXPLAIN SELECT count(*) FROM person;
 …
 Cost: epsilon 0.1 of carol's share of person's budget; 0 remains: it would be refused
 Cost: epsilon 0.1 of person's budget; 0.3 remains, 0.2 after
\restart
\connect alice
SET dp.source = fresh;
:women;
 SPENT 0.2
:women;
 ERROR 53400: the share of analyst "alice" in the budget of table "person" does not allow this: …

--- History reads the odometer, and the budget names the cells that cost most.

\connect bob
SELECT analyst, most_expensive FROM dp.budget;
 NULL | NULL
 bob | NULL
\connect alice
:women;
\connect bob
SELECT count(*) FROM person WHERE sex = 'M';
SELECT count(*) FROM person WHERE age < 30;
SELECT analyst, cost, spent FROM dp.history ORDER BY charge_id;
 alice | 0.1 | 0.1
 bob | 0.1 | 0.1
 bob | 0.1 | 0.2
SELECT analyst, most_expensive FROM dp.budget;
 NULL | age = 0 to 29, sex = F or M
 bob | age = 0 to 29, sex = M

--- Shares of rho.
--@ budget = { epsilon = 2, delta = 1e-9 }
--@ analysts = { alice.budget.epsilon = 1 }

\connect alice
SET dp.rho = 0.004;
SET dp.source = fresh;
:women;
SELECT analyst, unit, spent, delta, epsilon_budget, remaining FROM dp.budget;
 NULL | rho | 0.004 | 1e-09 | 2.0 | 0.0521305
 alice | rho | 0.004 | 1e-09 | 1.0 | 0.0109730
SET dp.rho = 0.0199;
:women;
 ERROR 53400: the share of analyst "alice" in the budget of table "person" does not allow this: it costs rho 0.0199, and 0.010973 remains for the records asked about most by this analyst
 HINT: SET dp.rho to at most 0.010973…, which buys ±13 at 95 %, or …
