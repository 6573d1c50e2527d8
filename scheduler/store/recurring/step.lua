#!lua flags=allow-oom
-- Steps of recurring schedules that a full store carries out as well: their occurrences go on, and
-- their owners can pause and delete them.
--@include recurring/step
