CREATE TABLE "contracts_1"(
  "Agency" varchar(80) NOT NULL,
  "Bureau" varchar(80),
  "Supplier" varchar(120),
  "Category" varchar(40),
  "State" varchar(2),
  "signed" date,
  "closed" date,
  "amount" integer,
  "paid" bigint,
  "Number of Records" smallint NOT NULL,
  "score" double,
  "hours" smallint,
  "women" integer,
  "men" integer,
  "open" boolean
);
