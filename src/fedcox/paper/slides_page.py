"""The page of the paper's slide experiment: c-indices, the paper's beside them, and maps."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from fedcox.evaluation.comparison import REPLICATES, SchemeSummary
from fedcox.files.writing import write_atomically
from fedcox.paper.reproduction import summary_of
from fedcox.paper.slide_study import (
    DISCRETE,
    MINI,
    PAPER_TABLE,
    HeldOutSlide,
    SlideStudy,
    claims,
)
from fedcox.reports.number_text import DASH, count_text, noun_text, percent_text, signed_text
from fedcox.reports.page import Fact, page_html
from fedcox.slides.drawing import shown_picture
from fedcox.slides.feature_files import KnownSlide
from fedcox.slides.heatmap import PAGE, HeatmapOptions, HeatmapStep, gallery_file, picture_file
from fedcox.slides.heatmap_page import HeatmapRun, write_heatmap_page
from fedcox.slides.manifest import ManifestRow
from fedcox.slides.step import run_step
from fedcox.slides.tile_scores import ColourKey, ScoredTiles

_WIDEST = 1600


def draw_examples(study: SlideStudy, folder: Path, *, command: str) -> None:
    """Draw the study's examples, all of one fold and so on one scale, into `folder`."""
    if not study.examples:
        return
    by_name = {slide.tiles.slide_id: slide for slide in study.examples}
    first = study.examples[0]

    def score(slide_id: str, known: KnownSlide) -> ScoredTiles:
        return by_name[slide_id].tiles

    options = HeatmapOptions()
    step = HeatmapStep(
        score=score,
        digest=lambda slide_id: _digest(by_name[slide_id]),
        key=ColourKey(first.scale, first.link, "the training folds", study.simulated),
        model="",
        options=options,
    )
    rows = [ManifestRow(name, "", "", slide.path) for name, slide in by_name.items()]
    outcome = run_step(step, rows, folder)
    drawn = [row.slide_id for row in rows if row.slide_id not in outcome.failed]
    run = HeatmapRun(
        folder=folder,
        slides=drawn,
        failed=[*outcome.failed.items()],
        key=step.key,
        model=f"trained without fold {first.fold}, not kept",
        command=command,
    )
    write_heatmap_page(run, options.tiles)


def _digest(slide: HeldOutSlide) -> str:
    from hashlib import sha256

    return sha256(slide.tiles.scores.tobytes()).hexdigest()


#: One data set: its name, both schemes and their difference.
_TableLine = tuple[str, str, str, str]


@dataclass(frozen=True)
class ExampleFigure:
    """The pictures of the example slide and what to say about them."""

    heatmap: str
    gallery: str
    words: str
    alt: str
    files: str


def write_slides_page(
    path: str | Path,
    study: SlideStudy,
    *,
    command: str = "fedcox reproduce slides",
    heatmaps: Path | None = None,
) -> None:
    """Write the page to `path`, whole; `heatmaps` has the maps of its examples."""
    write_atomically(path, slides_html(study, command=command, heatmaps=heatmaps))


def slides_html(study: SlideStudy, *, command: str, heatmaps: Path | None = None) -> str:
    """The page as text."""
    comparison = study.comparison
    tests = noun_text(comparison.seeds, "run") + " of " + noun_text(_folds(study), "fold")
    example = None
    if study.examples and heatmaps is not None:
        example = _example(study.examples[0], heatmaps)
    content = {
        "study": study,
        "lead": _lead(study),
        "facts": _facts(study),
        "claims": claims(study),
        "test_sets": tests,
        "here": _here(study),
        "paper": _paper(study.cancer),
        "interval": REPLICATES[comparison.replicates],
        "fold_heads": _fold_heads(study),
        "folds": _fold_lines(study),
        "example": example,
        "method": method_lines(study),
        "seconds": [(name, f"{value:,.1f}") for name, value in study.seconds.items()],
        "command": command,
    }
    return page_html("slides.html.j2", content, "paper")


def _folds(study: SlideStudy) -> int:
    return len({row.fold for row in study.rows})


def _lead(study: SlideStudy) -> str:
    what = "simulated slides with a planted signal" if study.simulated else "slides"
    return (
        f"The paper's section 6.3 on {what}: {noun_text(study.patients, 'patient')} with "
        f"{noun_text(study.slides, 'slide')} in {noun_text(len(study.centers), 'center')}; the "
        "discrete-time model trained over the centers (DT-FL) against Cox's loss on pooled "
        "minibatches (MINI), the same network in both."
    )


def _facts(study: SlideStudy) -> list[Fact]:
    comparison = study.comparison
    facts = []
    for name, detail in ((DISCRETE, "federated"), (MINI, "pooled")):
        summary = summary_of(comparison, name)
        facts.append(Fact(_number(summary.mean), name, f"c-index, {detail}"))
    if study.mean_auc is not None:
        facts.append(
            Fact(
                f"{study.mean_auc:.3f}", "area under the curve", "planted tiles, unseen slides"
            )
        )
    share = percent_text(study.events / study.patients)
    facts += [
        Fact(count_text(study.patients), "patients", f"{share} with the event"),
        Fact(count_text(study.slides), "slides", f"{count_text(study.tiles)} tiles"),
        Fact(count_text(len(study.centers)), "centers"),
    ]
    return facts


def _here(study: SlideStudy) -> _TableLine:
    comparison = study.comparison
    gap = comparison.difference(DISCRETE, MINI)
    words = DASH
    if gap is not None and gap.mean is not None:
        words = signed_text(gap.mean)
        if gap.low is not None and gap.high is not None:
            words += f" ({signed_text(gap.low)} to {signed_text(gap.high)})"
    name = "simulated slides, here" if study.simulated else f"{study.cancer or 'slides'}, here"
    return (
        name,
        _mean_sd(summary_of(comparison, MINI)),
        _mean_sd(summary_of(comparison, DISCRETE)),
        words,
    )


def _mean_sd(summary: SchemeSummary) -> str:
    sd = "" if summary.sd is None else f" ± {summary.sd:.3f}"
    return _number(summary.mean) + sd


def _number(value: float | None) -> str:
    return DASH if value is None else f"{value:.3f}"


def _paper(cancer: str | None) -> list[_TableLine]:
    """The paper's rows: that of the same cancer, or all of them."""
    return [
        (
            name,
            "{:.2f} ± {:.2f}".format(*row[MINI]),
            "{:.2f} ± {:.2f}".format(*row[DISCRETE]),
            signed_text(row[DISCRETE][0] - row[MINI][0], 2),
        )
        for name, row in PAPER_TABLE.items()
        if cancer in (None, name)
    ]


def _fold_heads(study: SlideStudy) -> list[str]:
    heads = ["run, fold", "patients", "events", MINI, DISCRETE]
    return [*heads, "planted tiles, AUC"] if study.rankings else heads


def _fold_lines(study: SlideStudy) -> list[tuple[str, ...]]:
    """Every test set."""
    by_key = {(row.seed, row.fold, row.scheme): row for row in study.rows}
    lines = []
    for seed, fold in dict.fromkeys((row.seed, row.fold) for row in study.rows):
        row = by_key[seed, fold, DISCRETE]
        aucs = [one.auc for one in study.rankings if (one.seed, one.fold) == (seed, fold)]
        auc = f"{fmean(aucs):.3f} over {noun_text(len(aucs), 'slide')}" if aucs else DASH
        lines.append(
            (
                f"{seed + 1}, {fold}",
                count_text(row.patients),
                count_text(row.events),
                _number(by_key[seed, fold, MINI].c_index),
                _number(row.c_index),
                *([auc] if study.rankings else []),
            )
        )
    return lines


def _example(slide: HeldOutSlide, folder: Path) -> ExampleFigure:
    name = slide.tiles.slide_id
    heatmap, gallery = (
        shown_picture(file, _WIDEST)
        for file in (picture_file(folder, name), gallery_file(folder, name))
    )
    planted = int(slide.planted.sum())
    words = (
        f"The first slide, by name, of fold {slide.fold} with a fair share of planted tiles "
        f"({count_text(planted)} of {count_text(slide.planted.size)}); the model never saw its "
        "patient. It was not chosen for its looks."
        if planted
        else f"The first slide, by name, of fold {slide.fold}; the model never saw its patient."
    )
    alt = (
        f"Slide {slide.tiles.slide_id} beside the map of its tile scores; slide score "
        f"{signed_text(slide.tiles.slide_score)}."
    )
    files = f"More slides, and files for QuPath: {folder.name}/{PAGE}, beside this page."
    return ExampleFigure(heatmap, gallery, words, alt, files)


def method_lines(study: SlideStudy) -> list[str]:
    """What was chosen and done, in whole sentences; settings hold the numbers."""
    chosen = study.settings
    lines = [
        str(chosen["slides_words"]),
        str(chosen["encoder_words"]),
        f"Tiles are {chosen['tile_um']:g} µm wide ({chosen['tile_px']} pixels at "
        f"{chosen['mpp']:g} µm each), without overlap, at most "
        f"{count_text(chosen['max_tiles'])} a slide, drawn by seed.",
        f"The encoder's features are reduced to {chosen['reduced']} by the closed form of the "
        "linear autoencoder, from second moments summed over the centers, on training folds "
        "alone. The paper fits its autoencoder by Adam on all slides of a cancer, those of the "
        "test folds among them, and to 256.",
        f"DT-FL: logit link, intervals of {chosen['width']:g} {chosen['unit']}, events "
        f"weighted by summed counts, {chosen['epochs']} epochs of batches without replacement, "
        f"{chosen['batch_words']}, Adam with a learning rate of {chosen['learning_rate']:g}.",
        f"MINI: Cox's loss on pooled minibatches of {chosen['mini_batch_size']} slides, "
        f"{chosen['mini_epochs']} epochs, the same optimiser.",
        "Folds are drawn by patient inside each center. In training every slide is a sample; a "
        "patient's risk is the mean over slides. Higher is worse.",
    ]
    return [*lines, *map(str, chosen.get("notes", ()))]
