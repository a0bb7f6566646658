"""The studies that come with the package, one folder each; the library below imports none of
them."""
