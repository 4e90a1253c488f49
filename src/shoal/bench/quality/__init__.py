"""Are answers through the API those of the reference libraries, on real texts and speech?"""
