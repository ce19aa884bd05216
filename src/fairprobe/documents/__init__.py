"""Results of audits of tables and images."""
