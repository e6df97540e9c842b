# Rscript r_coxph.R FILE PATIENTS COLUMNS: one coxph.fit, one line of JSON.
# FILE holds doubles: the times, the events, then the covariates patient by patient.
given <- commandArgs(TRUE)
patients <- as.integer(given[2])
columns <- as.integer(given[3])
file <- file(given[1], "rb")
time <- readBin(file, "double", patients)
event <- readBin(file, "double", patients)
covariates <- matrix(readBin(file, "double", patients * columns), patients, byrow = TRUE)
close(file)
suppressMessages(library(survival))
outcome <- Surv(time, event)

mib <- function(field) {
  if (!file.exists("/proc/self/status")) return(NA)
  line <- grep(field, readLines("/proc/self/status"), value = TRUE)
  as.numeric(gsub("[^0-9]", "", line)) / 1024
}
invisible(gc())
try(cat("5", file = "/proc/self/clear_refs"), silent = TRUE) # the peak starts from here
before <- mib("VmRSS")
start <- Sys.time() # to the microsecond; system.time's own is rounded to milliseconds
# No residuals: nobody else computes them.
spent <- system.time(
  fit <- coxph.fit(covariates, outcome, NULL, NULL, NULL, coxph.control(), NULL,
                   method = "breslow", rownames = NULL, resid = FALSE)
)
seconds <- as.numeric(difftime(Sys.time(), start, units = "secs"))
extra <- max(0, mib("VmHWM") - before)
extra <- if (is.na(extra)) "null" else sprintf("%.1f", extra)

list_of <- function(numbers) paste(sprintf("%.17g", numbers), collapse = ", ")
cat(sprintf(
  paste0('{"coefficients": [%s], "standard_errors": [%s], ',
         '"versions": {"R": "%s.%s", "survival": "%s"}, ',
         '"measurement": {"seconds": %.6f, "cpu_seconds": %.4f, "extra_mib": %s}}\n'),
  list_of(fit$coefficients), list_of(sqrt(diag(fit$var))),
  R.version$major, R.version$minor, as.character(packageVersion("survival")),
  seconds, spent[["user.self"]] + spent[["sys.self"]], extra
))
