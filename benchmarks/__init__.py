"""kernlet against its peers: CPU-time ratios in one run, one thread, medians."""
