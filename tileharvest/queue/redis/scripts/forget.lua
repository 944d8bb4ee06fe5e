-- Drops everything of some segments but failures.
--
-- segments: their names

for _, name in ipairs(call.segments) do
    drop_segment(name)
end
return pack(#call.segments)
