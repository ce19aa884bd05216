"""DistroFair: which classes of objects does a recogniser fail when the scene becomes unusual?"""
