"""The migrations, in order of their number."""

POLICY = """
ALTER TABLE {table} ENABLE ROW LEVEL SECURITY;
CREATE POLICY tenant ON {table} TO footnote_app
    USING (tenant_id = current_setting('footnote.tenant_id', true));
GRANT SELECT, INSERT, UPDATE, DELETE ON {table} TO footnote_app;
"""

# Who may read a row of one audience; of several, all of which are needed; of what was made of a
# trace. Rows may be written for others.
AUDIENCE_POLICY = """
CREATE POLICY audience ON {table} AS RESTRICTIVE TO footnote_app
    USING (audience_id = ANY ((SELECT readable_audiences())::integer[])) WITH CHECK (true);
"""
AUDIENCES_POLICY = """
CREATE POLICY audience ON {table} AS RESTRICTIVE TO footnote_app
    USING (audience_ids <@ (SELECT readable_audiences())) WITH CHECK (true);
"""
TRACE_POLICY = """
CREATE POLICY audience ON {table} AS RESTRICTIVE TO footnote_app
    USING (EXISTS (SELECT FROM traces WHERE traces.trace_id = {table}.trace_id)) WITH CHECK (true);
"""
