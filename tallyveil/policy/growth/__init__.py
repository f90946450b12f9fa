"""The declaration of tables that grow by days."""
