"""The paper rerun: its experiments and the pages that show them; nothing else imports it."""
