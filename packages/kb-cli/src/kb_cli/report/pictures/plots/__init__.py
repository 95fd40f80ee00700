"""What pictures with axes are made of: the frame, scales, the text of ticks, and labels that lie on nothing else."""
