"""What a release costs: the loss of each cell and of each pair of cells, exactly."""
