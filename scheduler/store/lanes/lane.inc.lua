-- A lane's settings, in the order in which the scripts of this folder take and return them.

--@include shared/settings
local FIELDS = {'set', 'rate', 'per', 'burst', 'interval', 'slack', 'parallelism', 'note',
  'unpinned', 'paused', 'until', 'by', 'why'}
local FIRST_LIMIT, LAST_LIMIT, INTERVAL, UNPINNED, PAUSED, BY, LAST = 2, 7, 5, 9, 10, 12, 13
