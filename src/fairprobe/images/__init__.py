"""NeuronFair on images: a detector, the change of a sensitive attribute in a picture, and the pictures that the change makes it fail on."""
