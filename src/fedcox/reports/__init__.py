"""What a clinician reads: tables, figures, one HTML page, the ledger."""
