# Numbers from R for lung.json. Run in this folder: Rscript lung.R > lung.json
#
# survSplit writes the stack, glm fits it; coxph and concordance are the continuous-time
# references. The patients are those of R's own survival package; none are copied here.
suppressPackageStartupMessages(library(survival))

number <- function(x) ifelse(is.na(x), "null", formatC(x, digits = 17, format = "g", width = 1))
list_of <- function(x) paste0("[", paste(number(x), collapse = ", "), "]")
text <- function(x) paste0('"', x, '"')
entry <- function(name, value) paste0(text(name), ": ", value)
object <- function(...) paste0("{", paste(..., sep = ", "), "}")

# Binomial regression on person-periods of one width; intervals that say nothing are left out.
stacked <- function(data, covariates, width, link) {
  last <- ceiling(max(data$time) / width)
  long <- survSplit(Surv(time, died) ~ ., data = data, cut = width * seq_len(last - 1),
                    episode = "interval")
  informative <- tapply(long$died, long$interval, function(d) any(d == 1) && any(d == 0))
  long <- long[informative[as.character(long$interval)], ]
  long$interval <- factor(long$interval)
  regress <- function(columns, epsilon) {
    formula <- reformulate(c("0", "interval", sprintf("`%s`", columns)), "died")
    glm(formula, binomial(link), data = long, control = glm.control(epsilon, maxit = 100))
  }
  # First as anyone would, which finds aliased columns; then to the last digits without them.
  kept <- !is.na(tail(coef(regress(covariates, 1e-8)), length(covariates)))
  fit <- regress(covariates[kept], 1e-15)
  table <- matrix(NA, length(covariates), 4)
  table[kept, ] <- tail(summary(fit)$coefficients, sum(kept))
  object(entry("link", text(link)), entry("width", number(width)),
         entry("rows", number(nrow(long))), entry("intervals", number(nlevels(long$interval))),
         entry("coef", list_of(table[, 1])), entry("se", list_of(table[, 2])),
         entry("z", list_of(table[, 3])), entry("p", list_of(table[, 4])),
         entry("log_likelihood", number(as.numeric(logLik(fit)))))
}

cox <- function(data, covariates) {
  formula <- reformulate(sprintf("`%s`", covariates), "Surv(time, died)")
  fit <- coxph(formula, data, ties = "breslow",
               control = coxph.control(eps = 1e-13, toler.chol = 1e-14, iter.max = 100))
  order <- concordance(fit)
  object(entry("coef", list_of(coef(fit))), entry("se", list_of(sqrt(diag(vcov(fit))))),
         entry("log_likelihood", number(fit$loglik[2])),
         entry("concordance", number(as.numeric(order$concordance))),
         entry("concordant", number(order$count[["concordant"]])),
         entry("discordant", number(order$count[["discordant"]])),
         entry("tied_in_risk", number(order$count[["tied.x"]])))
}

problem <- function(name, data, covariates, width) {
  data <- data[, c("time", "died", covariates)]
  fits <- c(stacked(data, covariates, width, "logit"), stacked(data, covariates, width, "cloglog"))
  parts <- c(entry("covariates", paste0("[", paste(text(covariates), collapse = ", "), "]")),
             entry("patients", number(nrow(data))), entry("events", number(sum(data$died))),
             entry("stacked", paste0("[\n  ", paste(fits, collapse = ",\n  "), "]")),
             entry("breslow", cox(data, covariates)))
  entry(name, paste0("{\n ", paste(parts, collapse = ",\n "), "}"))
}

lung <- na.omit(survival::lung)
lung$died <- as.integer(lung$status == 2)
columns <- c("age", "sex", "ph.ecog", "ph.karno", "pat.karno", "meal.cal", "wt.loss")
few <- na.omit(survival::lung[, c("time", "status", "age", "sex")])
few$died <- as.integer(few$status == 2)
# The third column is a combination of the two before it; R leaves it out.
aliased <- transform(few, months = 12 * age - sex + 5)
fine <- transform(few, decades = age / 10)

cat(paste(c(
  paste0("{", entry("tool", text("R: survSplit, glm, coxph, concordance"))),
  entry("versions", object(entry("R", text(getRversion())),
                           entry("survival", text(packageVersion("survival"))))),
  entry("date", text(Sys.Date())),
  entry("tolerance", object(entry("coef", "1e-8"), entry("se", "1e-7"),
                            entry("log_likelihood", "1e-9"))),
  entry("problems", paste0("{\n", paste(c(
    problem("every column", lung, columns, 30),
    problem("age and sex", few, c("age", "sex"), 90),
    problem("a fine grid", fine, c("decades", "sex"), 7),
    problem("an aliased column", aliased, c("age", "sex", "months"), 60)
  ), collapse = ",\n"), "}}"))), collapse = ",\n"), "\n", sep = "")
