#!lua
-- Steps of recurring schedules that store more than was there before: a full store refuses them.
--@include recurring/step
