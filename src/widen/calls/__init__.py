"""A call becomes a problem: arguments checked, the way it goes, batches cut, gradients."""
