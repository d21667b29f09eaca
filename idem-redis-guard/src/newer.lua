-- Keeps an entry unless a newer one is there. Entries begin with 21 digits that grow.
local kept = redis.call('TYPE', KEYS[1])['ok'] == 'string' and redis.call('GETRANGE', KEYS[1], 0, 20) or ''
if #kept == 21 and string.find(kept, '^%d+$') and kept > string.sub(ARGV[1], 1, 21) then
  return 0
end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return 1
