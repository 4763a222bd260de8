// Asynq: tasks, retries, delays, deadlines, cancellation, unique tasks, priorities of queues, pause, retention, groups,
// periodic tasks, inspection, archive.
// Packages: github.com/hibiken/asynq
package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hibiken/asynq"
)

type notes struct {
	sync.Mutex
	words []string
}

func (n *notes) add(word string) {
	n.Lock()
	defer n.Unlock()
	n.words = append(n.words, word)
}

func (n *notes) count(word string) (count int) {
	n.Lock()
	defer n.Unlock()
	for _, other := range n.words {
		if other == word {
			count++
		}
	}
	return
}

func asynqTasks(ctx context.Context) {
	connection := asynq.RedisClientOpt{Addr: address}
	client, inspector := asynq.NewClient(connection), asynq.NewInspector(connection)
	check(client.Ping())
	var seen notes
	var late time.Time
	mux := asynq.NewServeMux()
	mux.HandleFunc("note", func(ctx context.Context, task *asynq.Task) error {
		seen.add(string(task.Payload()))
		_, err := task.ResultWriter().Write([]byte("noted"))
		return err
	})
	mux.HandleFunc("late", func(context.Context, *asynq.Task) error {
		late = time.Now()
		seen.add("late")
		return nil
	})
	mux.HandleFunc("third", func(ctx context.Context, task *asynq.Task) error {
		seen.add("third")
		if retried, _ := asynq.GetRetryCount(ctx); retried < 2 {
			return errors.New("again")
		}
		return nil
	})
	mux.HandleFunc("broken", func(context.Context, *asynq.Task) error { return fmt.Errorf("broken: %w", asynq.SkipRetry) })
	mux.HandleFunc("slow", func(ctx context.Context, _ *asynq.Task) error {
		seen.add("slow")
		<-ctx.Done()
		seen.add("cancelled")
		return ctx.Err()
	})
	mux.HandleFunc("sum", func(_ context.Context, task *asynq.Task) error {
		seen.add(string(task.Payload()))
		return nil
	})
	note := func(word string, options ...asynq.Option) *asynq.TaskInfo {
		return must(client.Enqueue(asynq.NewTask("note", []byte(word)), options...))
	}

	step("priorities of queues")
	note("low", asynq.Queue("low"))
	note("high", asynq.Queue("high"))
	server := asynq.NewServer(connection, asynq.Config{
		Concurrency: 1, Queues: map[string]int{"high": 6, "default": 3, "low": 1}, StrictPriority: true,
		RetryDelayFunc:           func(int, error, *asynq.Task) time.Duration { return 100 * time.Millisecond },
		DelayedTaskCheckInterval: 100 * time.Millisecond, TaskCheckInterval: 50 * time.Millisecond, LogLevel: asynq.WarnLevel,
		GroupGracePeriod: time.Second, GroupMaxSize: 3, JanitorInterval: time.Second,
		GroupAggregator: asynq.GroupAggregatorFunc(func(group string, tasks []*asynq.Task) *asynq.Task {
			var words []string
			for _, task := range tasks {
				words = append(words, string(task.Payload()))
			}
			slices.Sort(words)
			return asynq.NewTask("sum", []byte(strings.Join(words, "+")))
		}),
	})
	check(server.Start(mux))
	until(func() bool { return seen.count("low") == 1 })
	equal(seen.words, []string{"high", "low"})

	step("results and retention")
	kept := note("kept", asynq.Retention(time.Minute))
	until(func() bool {
		info := must(inspector.GetTaskInfo("default", kept.ID))
		return info.State == asynq.TaskStateCompleted && string(info.Result) == "noted"
	})
	step("retries")
	must(client.Enqueue(asynq.NewTask("third", nil), asynq.MaxRetry(5)))
	until(func() bool { return seen.count("third") == 3 })
	step("archive")
	broken := must(client.Enqueue(asynq.NewTask("broken", nil)))
	until(func() bool { return must(inspector.GetTaskInfo("default", broken.ID)).State == asynq.TaskStateArchived })
	check(inspector.RunTask("default", broken.ID))
	until(func() bool { return len(must(inspector.ListArchivedTasks("default"))) == 1 })
	check(inspector.DeleteTask("default", broken.ID))
	step("delays")
	begun := time.Now()
	must(client.Enqueue(asynq.NewTask("late", nil), asynq.ProcessIn(1500*time.Millisecond)))
	equal(len(must(inspector.ListScheduledTasks("default"))), 1)
	until(func() bool { return seen.count("late") == 1 })
	// Asynq rounds times to whole seconds.
	if waited := late.Sub(begun); waited < 500*time.Millisecond {
		fail(fmt.Errorf("ran after %v", waited))
	}
	step("unique tasks")
	note("unique", asynq.Unique(time.Minute), asynq.ProcessIn(time.Hour))
	_, err := client.Enqueue(asynq.NewTask("note", []byte("unique")), asynq.Unique(time.Minute))
	equal(errors.Is(err, asynq.ErrDuplicateTask), true)
	note("named", asynq.TaskID("id"), asynq.ProcessIn(time.Hour))
	_, err = client.Enqueue(asynq.NewTask("note", []byte("named")), asynq.TaskID("id"))
	equal(errors.Is(err, asynq.ErrTaskIDConflict), true)
	equal(must(inspector.RunAllScheduledTasks("default")), 2)
	until(func() bool { return seen.count("unique") == 1 && seen.count("named") == 1 })
	step("groups")
	for _, word := range []string{"a", "b", "c"} {
		must(client.Enqueue(asynq.NewTask("part", []byte(word)), asynq.Group("all")))
	}
	until(func() bool { return seen.count("a+b+c") == 1 })
	step("cancellation and deadlines")
	slow := must(client.Enqueue(asynq.NewTask("slow", nil), asynq.MaxRetry(0)))
	until(func() bool { return seen.count("slow") == 1 })
	check(inspector.CancelProcessing(slow.ID))
	until(func() bool { return seen.count("cancelled") == 1 })
	must(client.Enqueue(asynq.NewTask("slow", nil), asynq.MaxRetry(0), asynq.Timeout(time.Second)))
	until(func() bool { return seen.count("cancelled") == 2 })
	step("pause")
	check(inspector.PauseQueue("default"))
	note("paused")
	time.Sleep(200 * time.Millisecond)
	equal(seen.count("paused"), 0)
	check(inspector.UnpauseQueue("default"))
	until(func() bool { return seen.count("paused") == 1 })
	step("periodic tasks")
	scheduler := asynq.NewScheduler(connection, &asynq.SchedulerOpts{LogLevel: asynq.WarnLevel})
	must(scheduler.Register("@every 1s", asynq.NewTask("note", []byte("tick"))))
	check(scheduler.Start())
	until(func() bool { return seen.count("tick") >= 2 })
	until(func() bool { return len(must(inspector.SchedulerEntries())) == 1 })
	scheduler.Shutdown()
	step("inspection")
	info := must(inspector.GetQueueInfo("default"))
	equal([]any{info.Completed, info.Paused}, []any{1, false})
	if info.Processed < 12 || info.Failed < 3 {
		fail(fmt.Errorf("%+v", info))
	}
	until(func() bool { return len(must(inspector.Servers())) == 1 })
	step("shutdown")
	server.Shutdown()
	equal(len(must(inspector.Servers())), 0)
	check(inspector.DeleteQueue("low", true))
}
