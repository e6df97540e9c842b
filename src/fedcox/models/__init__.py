"""From covariates and slides to a risk: networks for phi, and their losses."""
