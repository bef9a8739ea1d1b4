"""What would have to change for a pod to fit: changes of objects, each tried in the cycle before anybody sees it.

suggestion            what a kind of suggestion is; `kinds` has them, `all_kinds` lists them in their order
search, pairs         try what is proposed, and show what helps
group_search          the same for a pod group as a whole, by the group's cycle
for_many              of what helps one pod, what helps most of those like it
trials                how a change is tried, on `object_changes`
as_answer, as_text    how suggestions are said; `commands` how they are made with kubectl
"""
