-- The beginning of all names of one partition of the server, as retry:{3}: a script touches no other partition.
local root = KEYS[1]
