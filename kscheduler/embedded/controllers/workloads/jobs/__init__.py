"""Jobs and CronJobs: the controllers, the pods of a Job, and cron's schedules."""
