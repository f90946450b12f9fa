"""PHP, Ruby, Perl and R, each with its driver over libpq; and Django."""

from __future__ import annotations

import os
import subprocess
from typing import Any

import pytest

from tests.clients.conftest import BY_CITY, Served
from tests.clients.programs import INSTALLED, lines, need, run, skip

pytestmark = pytest.mark.usefixtures("free")

HAVING = BY_CITY.replace("ORDER BY", "HAVING city = $1 OR city = $2 ORDER BY")

PHP = """
$db = new PDO("pgsql:host=localhost;sslmode=verify-full;sslrootcert=" . getenv("PGSSLROOTCERT")
    . ";port=" . getenv("PGPORT") . ";dbname=tallyveil", "alice", getenv("PGPASSWORD"),
    [PDO::ATTR_ERRMODE => PDO::ERRMODE_EXCEPTION]);
foreach ($db->query($argv[1]) as $row) echo $row["city"], "|", $row["n"], "\\n";
$db->beginTransaction();
$prepared = $db->prepare(preg_replace('/[$][12]/', '?', $argv[2]));
$prepared->execute(["Paris", "Rome"]);
foreach ($prepared->fetchAll(PDO::FETCH_NUM) as $row) echo implode("|", $row), "\\n";
$db->commit();
"""

RUBY = """
require "pg"
connection = PG.connect
connection.set_notice_processor { }
connection.exec(ARGV[0]) { |rows| rows.each { |row| puts row.values.join("|") } }
connection.transaction do |block|
  block.exec_params(ARGV[1], ["Paris", "Rome"]).each { |row| puts row.values.join("|") }
end
"""

PERL = """
use DBI;
my $db = DBI->connect("dbi:Pg:", "", "", {RaiseError => 1, PrintWarn => 0, AutoCommit => 0});
print join("|", @$_), "\\n" for @{$db->selectall_arrayref($ARGV[0])};
my $prepared = $db->prepare($ARGV[1]);
$prepared->execute("Paris", "Rome");
print join("|", @$_), "\\n" for @{$prepared->fetchall_arrayref};
$db->commit;
"""

R = """
suppressMessages(library(RPostgreSQL))
asked <- commandArgs(trailingOnly = TRUE)
db <- dbConnect(PostgreSQL(), dbname = Sys.getenv("PGDATABASE"))
show <- function(rows) cat(paste(rows$city, rows$n, sep = "|", collapse = "\\n"), "\\n", sep = "")
show(dbGetQuery(db, asked[1]))
show(dbGetQuery(db, asked[2], c("Paris", "Rome")))
invisible(dbDisconnect(db))
"""


def need_with(driver: str, program: str, *check: str) -> str:
    """The program, if ``check`` finds its driver."""
    found = need(program)
    if subprocess.run((found, *check), capture_output=True, check=False).returncode:
        skip(driver)
    return found


def test_php(served: Served, by_city: list[Any]) -> None:
    php = need_with("pdo_pgsql", "php", "-r", "exit(extension_loaded('pdo_pgsql') ? 0 : 1);")
    found = run(served, php, "-r", PHP, "--", BY_CITY, HAVING).splitlines()
    assert found == lines(by_city) + lines(by_city[1:3])


def test_ruby(served: Served, by_city: list[Any]) -> None:
    ruby = need_with("ruby-pg", "ruby", "-e", "require 'pg'")
    found = run(served, ruby, "-e", RUBY, BY_CITY, HAVING).splitlines()
    assert found == lines(by_city) + lines(by_city[1:3])


def test_perl(served: Served, by_city: list[Any]) -> None:
    perl = need_with("DBD::Pg", "perl", "-MDBD::Pg", "-e", "1")
    found = run(served, perl, "-e", PERL, BY_CITY, HAVING).splitlines()
    assert found == lines(by_city) + lines(by_city[1:3])


def test_r(served: Served, by_city: list[Any]) -> None:
    script = need_with("RPostgreSQL", "Rscript", "-e", "library(RPostgreSQL)")
    found = run(served, script, "-e", R, BY_CITY, HAVING).splitlines()
    assert found == lines(by_city) + lines(by_city[1:3])


DJANGO = """
import os, sys
import django
from django.conf import settings
from django.db import connection, models, transaction

settings.configure(USE_TZ=True, TIME_ZONE="Europe/Paris", DATABASES={"default": {
    "ENGINE": "django.db.backends.postgresql", "HOST": "localhost", "PORT": os.environ["PGPORT"],
    "NAME": "tallyveil", "USER": "alice", "PASSWORD": os.environ["PGPASSWORD"],
    "TIME_ZONE": "Europe/Paris",
    "OPTIONS": {"sslmode": "verify-full", "sslrootcert": os.environ["PGSSLROOTCERT"],
                "server_side_binding": sys.argv[2] == "server"},
}})
django.setup()

class Patient(models.Model):
    city = models.TextField(primary_key=True)
    class Meta:
        app_label, db_table, managed = "clinic", "patients", False

def show(rows):
    print(*(f"{city}|{n}" for city, n in rows), sep="\\n")

with connection.cursor() as cursor:
    cursor.execute(sys.argv[1])
    show(cursor.fetchall())
    print(*sorted(connection.introspection.table_names(cursor)))
with transaction.atomic():
    counted = Patient.objects.values("city").annotate(n=models.Count("*")).order_by("city")
    show(counted.values_list("city", "n"))
"""


@pytest.mark.parametrize("binding", ["client", "server"])
def test_django(served: Served, by_city: list[Any], binding: str) -> None:
    """Which sets its time zone by set_config."""
    python = INSTALLED / "django" / "bin" / "python"
    if not os.path.exists(python):
        skip("Django")
    found = run(served, str(python), "-c", DJANGO, BY_CITY, binding).splitlines()
    assert found == [*lines(by_city), "patients towns", *lines(by_city)]
