"""Inside one hospital: from a scanner's files to bags of tile features."""
