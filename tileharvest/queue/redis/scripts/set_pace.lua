-- Another pace holds from now on, for all workers of the map; what has been leased keeps its start.
--
-- pace: see `limits.lua`

keep_pace((clock()))
return pack(true)
