"""From a video that is being filmed to a camera that moves: sources, detectors, the pipeline, and where it goes."""
