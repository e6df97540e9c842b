"""How a study runs between hospitals: start-up kits, processes, jobs, folders."""
