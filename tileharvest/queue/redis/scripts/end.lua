-- Ends leases. ARGV goes on with: id, attempt, how it ends and why, as `End` says, of each. A lease that has been
-- handed out again since, or has ended, is left alone.

for place = 4, #ARGV, 4 do
    local id, attempt, how, reason = unpack(ARGV, place, place + 3)
    local now_at, segment, fingerprint, holder =
        unpack(redis.call('HMGET', entry(id), 'attempt', 'segment', 'fingerprint', 'worker'))
    if now_at == attempt then
        if how == 'finish' then
            take(id)
            redis.call('DEL', entry(id))
            redis.call('HINCRBY', P .. 'done', segment, 1)
        elseif how == 'release' then
            if redis.call('SREM', P .. 'leases:' .. holder, id) == 1 then
                wait(id)
            end
        else
            take(id)
            fail(id, reason)
            if how == 'unsee' then
                redis.call('SREM', P .. 'seen:' .. segment, fingerprint)
            end
        end
    end
end
