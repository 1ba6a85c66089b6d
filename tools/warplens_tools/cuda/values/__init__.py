"""What expressions come to: names and their values, types, affine forms, pointers."""
