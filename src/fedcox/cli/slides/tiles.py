"""`fedcox slides` up to tiles: simulate, inspect, segment, train-unet, tile."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table

from fedcox.cli.options import AssumeMpp, ManifestFile, WorkFolder, to_replace, to_write
from fedcox.cli.slides.progress import take_step
from fedcox.cli.terminal import Terminal, progress_bar, say

_FILES = ("slides", "slides.csv", "patients.csv", "planted.json")


def simulate(
    out: Annotated[Path, to_write("FOLDER")],
    patients: Annotated[int, typer.Option(min=1, help="Patients over all centers.")] = 60,
    centers: Annotated[int, typer.Option(min=1, help="Number of centers, unequal.")] = 3,
    seed: Annotated[int, typer.Option(min=0, help="The same seed gives the same files.")] = 0,
    size_px: Annotated[
        int, typer.Option(min=256, max=20_000, metavar="PIXELS", help="A slide's side.")
    ] = 1024,
    mpp: Annotated[
        float,
        typer.Option(min=0.1, max=4.0, metavar="MICROMETRES", help="Micrometres per pixel."),
    ] = 1.0,
    overwrite: Annotated[bool, to_replace("a simulation")] = False,
) -> None:
    """Simulate slides: real pyramids on the disk, slides.csv, patients.csv, planted.json.

    Nobody in these files is a patient. Regions of another texture raise the
    hazard; planted.json says where they are.

    Example: fedcox slides simulate --out simulated --patients 60 --centers 3
    """
    from fedcox.files.writing import check_folder, whole_folder
    from fedcox.slides.simulated_slides import simulate_slides

    check_folder(
        out, overwrite=overwrite, is_ours=lambda path: path.name in _FILES, what="simulation"
    )
    with progress_bar() as progress, whole_folder(out) as folder:
        task = progress.add_task("drawing slides", total=None)

        def wrote(done: int, total: int) -> None:
            progress.update(task, completed=done, total=total)

        made = simulate_slides(
            folder, patients, centers, seed, size_px=size_px, mpp=mpp, wrote=wrote
        )
    say(f"{out}: {len(made.planted):,} simulated slides of {patients:,} simulated patients.")
    words = ["fedcox", "slides", "segment", str(out / "slides.csv"), "--work", f"{out}-work"]
    say(f"Next: {shlex.join(words)}")


def inspect(
    path: Annotated[
        Path,
        typer.Argument(
            metavar="PATH", help="A slide, mask, file of tiles or features, or of weights."
        ),
    ],
) -> None:
    """Tell what a file holds: size, resolution, tiles, encoder; never a patient's values.

    Also features of CLAM, TRIDENT, STAMP, slideflow, Owkin and FLamby.

    Example: fedcox slides inspect work/reduced/SLIDE.h5
    """
    from fedcox.slides.contents import contents

    listing = contents(path)
    table = Table(show_header=False)
    for what, value in listing.rows:
        table.add_row(escape(what), escape(value))
    console = Terminal()
    console.print(
        f"{escape(path.name)}: {escape(listing.kind)}", soft_wrap=True, highlight=False
    )
    console.print(table)


UnetFile = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE.safetensors",
        help="A U-Net of your own, from `fedcox slides train-unet`, instead of Otsu.",
    ),
]
MaskMicrometres = Annotated[
    float | None,
    typer.Option(
        min=4.0,
        max=100.0,
        metavar="MICROMETRES",
        help="Micrometres per pixel of the mask; default: 8, or the U-Net's own.",
    ),
]
SpeckArea = Annotated[
    float,
    typer.Option(
        "--speck-um2", min=0.0, metavar="AREA", help="Drop pieces smaller than this, in µm²."
    ),
]
HoleArea = Annotated[
    float,
    typer.Option(
        "--hole-um2", min=0.0, metavar="AREA", help="Fill holes smaller than this, in µm²."
    ),
]
Overviews = Annotated[
    bool,
    typer.Option(
        "--overviews", help="Also write WORK/overviews/SLIDE.png, to draw masks on for a U-Net."
    ),
]


def segment(
    manifest: ManifestFile,
    work: WorkFolder,
    unet: UnetFile = None,
    mask_um: MaskMicrometres = None,
    speck_um2: SpeckArea = 50_000.0,
    hole_um2: HoleArea = 50_000.0,
    assume_mpp: AssumeMpp = None,
    overviews: Overviews = False,
) -> None:
    """Find tissue: masks/SLIDE.png, and masks/SLIDE.geojson for QuPath.

    By Otsu's threshold of the saturation, in micrometres, whatever the scanner.
    Pen marks are coloured and count as tissue; blur and folds are not looked
    for. So look at the masks.

    Example: fedcox slides segment slides.csv --work work
    """
    from fedcox.slides.tiling import Segmentation
    from fedcox.slides.tissue import chosen_finder

    step = Segmentation(
        chosen_finder(unet, mask_um), speck_um2, hole_um2, assume_mpp, overviews
    )
    take_step(step, manifest, work, title="finding tissue", folder="masks")


MaskUm = Annotated[
    float,
    typer.Option(
        min=4.0, max=100.0, metavar="MICROMETRES", help="Micrometres per pixel of the pictures."
    ),
]


def train_unet(
    images: Annotated[
        Path,
        typer.Argument(
            metavar="IMAGES", help="A folder of pictures, such as `segment --overviews` writes."
        ),
    ],
    masks: Annotated[
        Path,
        typer.Option(
            metavar="FOLDER", help="Masks of the same names and sizes, white where tissue is."
        ),
    ],
    out: Annotated[Path, to_write("FILE.safetensors", "file")],
    mask_um: MaskUm = 8.0,
    steps: Annotated[int, typer.Option(min=1, help="Steps of four crops each.")] = 500,
    seed: Annotated[int, typer.Option(min=0, help="Of weights and crops.")] = 0,
    overwrite: Annotated[bool, to_replace("a file")] = False,
) -> None:
    """Train a U-Net to find tissue, for `fedcox slides segment --unet`.

    Worth it where Otsu's threshold errs: pale stains, pen marks, dirt. Correct
    some of its masks by hand, on the overviews, and train on them.

    Example: fedcox slides train-unet work/overviews --masks corrected --out unet.safetensors
    """
    from fedcox.errors import needs_extra
    from fedcox.files.writing import check_file

    try:
        from fedcox.slides.unet import read_pairs, write_unet
        from fedcox.slides.unet import train_unet as train
    except ImportError as error:
        raise needs_extra("torch", "slides") from error
    check_file(out, overwrite=overwrite)
    pictures, truths = read_pairs(images, masks)
    last = [float("nan")]
    with progress_bar() as progress:
        task = progress.add_task("training", total=steps)

        def watch(step: int, loss: float) -> None:
            last[0] = loss
            progress.update(task, completed=step, description=f"training, loss {loss:.4f}")

        network = train(pictures, truths, steps=steps, seed=seed, watch=watch)
    write_unet(out, network, mask_um)
    say(f"{out}: trained on {len(pictures):,} pictures; loss at the end {last[0]:.4f}.")


def tile(
    manifest: ManifestFile,
    work: WorkFolder,
    tile_um: Annotated[
        float,
        typer.Option(min=1.0, metavar="MICROMETRES", help="A tile's side, in micrometres."),
    ] = 112.0,
    mpp: Annotated[
        float,
        typer.Option(
            min=0.05,
            max=20.0,
            metavar="MICROMETRES",
            help="Micrometres per pixel that tiles are read at; the defaults give 224 pixels.",
        ),
    ] = 0.5,
    max_tiles: Annotated[
        int, typer.Option(min=1, help="Of a slide with more tiles, draw so many.")
    ] = 8000,
    min_tissue: Annotated[
        float,
        typer.Option(
            min=0.0, max=1.0, metavar="SHARE", help="Tiles with less tissue are left out."
        ),
    ] = 0.5,
    seed: Annotated[int, typer.Option(min=0, help="The same seed draws the same tiles.")] = 0,
) -> None:
    """Lay tiles on tissue, without overlap: tiles/SLIDE.h5 with their places.

    Needs the masks of `fedcox slides segment`, and not the slides themselves.

    Example: fedcox slides tile slides.csv --work work --tile-um 112 --mpp 0.5
    """
    from fedcox.slides.tiling import Tiling

    step = Tiling(tile_um, mpp, max_tiles, min_tissue, seed)
    take_step(step, manifest, work, title="laying tiles", folder="tiles")
