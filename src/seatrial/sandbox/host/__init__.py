"""Is this machine out of something that trials need: room on a disk, processes, memory; and who used it up?"""
