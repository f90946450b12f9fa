"""Superset's settings: its own database is beside its other files, and it serves one browser."""

import os

SECRET_KEY = "only for a test, whose dashboards nobody keeps"
SQLALCHEMY_DATABASE_URI = f"sqlite:///{os.environ['SUPERSET_HOME']}/superset.db"
TALISMAN_ENABLED = False
WTF_CSRF_ENABLED = False
