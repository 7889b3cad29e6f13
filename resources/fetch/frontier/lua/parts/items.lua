-- Scripts of several items: their arguments follow each other.

-- Takes the step of the item whose arguments begin there. Its error stands for its reply: others have theirs. `undo`
-- takes back what it has changed of domains and not written.
local function reply_of(step, undo, first)
  local is_done, reply = pcall(step, first)
  rules.luck = (rules.luck + 0.618) % 1
  if is_done then return reply end
  undo()
  return redis.error_reply(type(reply) == 'table' and reply.err or tostring(reply))
end
