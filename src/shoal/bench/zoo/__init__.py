"""Do the zoo's converted models answer as their original files do?"""
