"""The migrations, in order of their number."""

POLICY = """
ALTER TABLE {table} ENABLE ROW LEVEL SECURITY;
CREATE POLICY tenant ON {table} TO footnote_app
    USING (tenant_id = current_setting('footnote.tenant_id', true));
GRANT SELECT, INSERT, UPDATE, DELETE ON {table} TO footnote_app;
"""
